"""Cards: one attachment as the page shows it, with its outcome."""

from __future__ import annotations

import re

from attachstore.reference import Reference
from attachstore.replay.markup import (
    EMPTY,
    Html,
    count_text,
    element,
    excerpt,
    icon,
    join,
    size_text,
)
from attachstore.replay.pictures import Pictures, Preview
from attachstore.replay.steps import Outcome, Resolved

_NAME_CHARS_MAX = 160
_DIGITS = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")

OUTCOME_LABELS = {
    Outcome.OK: "verified",
    Outcome.MISSING: "missing",
    Outcome.CORRUPT: "corrupt",
    Outcome.HEADER_MISMATCH: "header mismatch",
    Outcome.UNREADABLE: "unreadable",
}

_KINDS = {
    "application/pdf": "document",
    "application/json": "text",
    "application/x-ndjson": "text",
    "application/zip": "archive",
    "application/gzip": "archive",
}


def kind_of(media_type: str) -> str:
    """What a filter and an icon call it: image, audio, video, text, document, archive or file."""
    family = media_type.partition("/")[0]
    if family in {"image", "audio", "video", "text"}:
        return family
    if "officedocument" in media_type:
        return "document"
    return _KINDS.get(media_type, "file")


def card(resolved: Resolved, anchor: str, pictures: Pictures) -> Html:
    """The attachment with everything the log and the store say about it."""
    reference = resolved.reference
    whole = resolved.outcome is Outcome.OK
    preview = pictures.preview(reference, anchor) if whole else Preview()
    body = element(
        "div",
        _title(resolved),
        element("p", join(_facts(reference), " · "), class_="facts"),
        digest_button(str(reference.digest)),
        class_="card-body",
    )
    return element(
        "figure",
        _picture(preview, reference),
        body,
        _failure(resolved),
        _excerpt(preview),
        id=anchor,
        class_=f"card {resolved.outcome}",
        data_outcome=resolved.outcome,
        data_kind=kind_of(reference.media_type),
    )


def label(reference: Reference) -> Html:
    """What to call it: its name, isolated so that it cannot turn its neighbours around."""
    if not reference.name:
        return element("i", f"unnamed {kind_of(reference.media_type)}")
    shown, left_out = excerpt(reference.name, _NAME_CHARS_MAX)
    return element("bdi", f"{shown}…" if left_out else shown)


def badge(outcome: Outcome) -> Html:
    """The outcome in words and with a sign, never by colour alone."""
    sign = icon("ok" if outcome is Outcome.OK else "bad")
    return element("span", sign, OUTCOME_LABELS[outcome], class_=f"badge {outcome}")


def digest_button(digest: str) -> Html:
    """The whole digest; the style shortens what does not fit, a click copies it."""
    return element(
        "button",
        element("code", digest),
        icon("copy"),
        type="button",
        class_="digest",
        data_copy=digest,
        title="Copy the digest",
    )


def _title(resolved: Resolved) -> Html:
    name = element("figcaption", label(resolved.reference), class_="name")
    return element("div", name, badge(resolved.outcome), class_="card-title")


def _facts(reference: Reference) -> list[str]:
    facts: list[str] = [reference.media_type]
    if reference.width and reference.height:
        facts.append(f"{reference.width:,} \u00d7 {reference.height:,}")
    if reference.frames and reference.frames > 1:
        facts.append(count_text(reference.frames, "frame"))
    if reference.pages:
        facts.append(count_text(reference.pages, "page"))
    facts.append(size_text(reference.size))
    return [fact.replace(" ", "\u00a0") for fact in facts]  # a line ends between facts only


def _picture(preview: Preview, reference: Reference) -> Html:
    description = f"Thumbnail of {reference.name or 'an unnamed image'}"
    if preview.data_uri:
        image = element("img", src=preview.data_uri, alt=description)
        return element("div", image, class_="thumb")
    if preview.same_as:
        image = element("img", alt=f"{description}, as above", data_same=preview.same_as)
        return element("a", image, href=f"#{preview.same_as}", class_="thumb")
    sign = icon(kind_of(reference.media_type))
    note = element("small", preview.note) if preview.note else EMPTY
    return element("div", sign, note, class_="thumb none")


def _failure(resolved: Resolved) -> Html:
    if resolved.error is None:
        return EMPTY
    code = element("code", resolved.error.code)
    said = _DIGITS.sub(r"\1…", str(resolved.error))  # the card shows the digest in full
    return element("p", code, " ", said, class_="failure")


def _excerpt(preview: Preview) -> Html:
    if not preview.excerpt:
        return EMPTY
    return element("pre", element("code", preview.excerpt), class_="excerpt", dir="auto")
