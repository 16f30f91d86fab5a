"""Summary: what the page says above the timeline, counted while the steps go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from attachstore.digest import Digest
from attachstore.replay.cards import OUTCOME_LABELS, kind_of, label
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
from attachstore.replay.steps import Outcome, Resolved, Step

PROBLEMS_LISTED_MAX = 100
_TYPES_MAX = 40
_TYPE_CHARS_MAX = 60
_DISTINCT_MAX = 1_000_000
_BAR_WIDTH = 1000


@dataclass(slots=True, kw_only=True)
class Totals:
    """Counts over all steps, drawn or not. Bounded: a million distinct objects are told apart."""

    events: int = 0
    undrawn: int = 0
    unverified: int = 0
    attachments: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    kinds: Counter[str] = field(default_factory=Counter[str])
    types: Counter[str] = field(default_factory=Counter[str])
    stored_bytes: int = 0
    """Of the distinct objects that are whole."""
    base64_bytes: int = 0
    """What every whole attachment would take in the log, each time it is referred to."""
    problems: list[tuple[int, str, Resolved]] = field(
        default_factory=list[tuple[int, str, Resolved]]
    )
    """The first ones: event, anchor, attachment."""
    _seen: set[Digest] = field(default_factory=set[Digest])

    @property
    def distinct(self) -> int:
        return len(self._seen)

    def add(self, step: Step) -> None:
        self.events += 1
        self.unverified += not step.event.verified
        kind = excerpt(step.event.type, _TYPE_CHARS_MAX)[0]
        if kind in self.types or len(self.types) < _TYPES_MAX:
            self.types[kind] += 1
        for each in step.attachments:
            self._add_attachment(each)

    def add_problem(self, seq: int, anchor: str, resolved: Resolved) -> None:
        if len(self.problems) < PROBLEMS_LISTED_MAX:
            self.problems.append((seq, anchor, resolved))

    def _add_attachment(self, resolved: Resolved) -> None:
        reference = resolved.reference
        self.attachments += 1
        self.outcomes[resolved.outcome] += 1
        self.kinds[kind_of(reference.media_type)] += 1
        is_new = reference.digest not in self._seen and len(self._seen) < _DISTINCT_MAX
        if is_new:
            self._seen.add(reference.digest)
        if resolved.outcome is Outcome.OK:
            self.base64_bytes += 4 * -(-reference.size // 3)
            self.stored_bytes += reference.size if is_new else 0

    @property
    def broken(self) -> int:
        return self.attachments - self.outcomes[Outcome.OK]


def verdict(totals: Totals, log_problem: str | None) -> Html:
    """One sentence on whether all is well, and the list of what is not."""
    if not totals.broken and not log_problem:
        said = _all_well(totals)
        return element("div", icon("ok"), element("p", said), class_="verdict good")
    sentences: list[str] = []
    if totals.broken:
        whole = count_text(totals.attachments, "attachment")
        sentences.append(f"{totals.broken:,} of {whole} cannot be given back as logged.")
    if log_problem:
        sentences.append(log_problem)
    said = element("p", " ".join(sentences))
    listed = element("ul", join(_problem_items(totals))) if totals.problems else EMPTY
    body = element("div", said, listed)
    return element("div", icon("bad"), body, class_="verdict bad", role="alert")


def tiles(totals: Totals, log_bytes: int) -> Html:
    """The numbers."""
    verified = f"{totals.outcomes[Outcome.OK]:,}"
    of = f"of {totals.attachments:,}"
    shown = [
        ("Events", f"{totals.events:,}", ""),
        ("Attachments", f"{totals.attachments:,}", f"{totals.distinct:,} distinct"),
        ("Verified", verified, of),
        ("Objects", size_text(totals.stored_bytes), "stored once each"),
        ("Log", size_text(log_bytes), "on disk"),
    ]
    return element("dl", join(_tile(*each) for each in shown), class_="tiles")


def savings(totals: Totals, log_bytes: int) -> Html:
    """Two bars: the attachments as base64 in the log, and what there is instead."""
    if not totals.base64_bytes:
        return EMPTY
    inline = totals.base64_bytes + log_bytes
    kept = totals.stored_bytes + log_bytes
    longest = max(inline, kept)
    caption = element(
        "figcaption", _savings_sentence(inline, kept, log_bytes), class_="savings-said"
    )
    rows = [
        _bar("Base64 in the log", inline, longest, ((inline, "inline"),)),
        _bar("Log and objects", kept, longest, ((log_bytes, "log"), (totals.stored_bytes, "kept"))),
    ]
    return element("figure", join(rows), caption, class_="savings")


def controls(totals: Totals) -> Html:
    """The filters; shown where scripts run."""
    outcomes = [
        (outcome.value, f"{OUTCOME_LABELS[outcome]} ({totals.outcomes[outcome]:,})")
        for outcome in Outcome
        if totals.outcomes[outcome]
    ]
    if totals.attachments:
        outcomes.insert(0, ("*", f"with attachments ({totals.attachments:,})"))
    if totals.broken:
        outcomes.insert(1, ("!", f"with problems ({totals.broken:,})"))
    types = [(kind, f"{kind} ({count:,})") for kind, count in totals.types.most_common()]
    kinds = [(kind, f"{kind} ({count:,})") for kind, count in totals.kinds.most_common()]
    return element(
        "form",
        _select("filter-outcome", "Outcome", outcomes),
        _select("filter-type", "Event type", types),
        _select("filter-kind", "Attachment", kinds),
        element("output", count_text(totals.events, "event"), id="shown", aria_live="polite"),
        class_="controls",
        id="controls",
        hidden=True,
    )


def _all_well(totals: Totals) -> str:
    if not totals.attachments:
        return "The log is whole. Nothing is attached."
    one = totals.attachments == 1
    number = "The attachment is" if one else f"All {totals.attachments:,} attachments are"
    return f"{number} there, whole and unchanged."


def _problem_items(totals: Totals) -> Iterator[Html]:
    for seq, anchor, resolved in totals.problems:
        outcome = element("span", OUTCOME_LABELS[resolved.outcome], class_="said")
        link = element("a", f"Event {seq}", href=f"#{anchor}")
        yield element("li", link, " ", label(resolved.reference), " ", outcome)
    more = totals.broken - len(totals.problems)
    if more > 0:
        yield element("li", f"and {more:,} more", class_="cut")


def _tile(name: str, value: str, note: str) -> Html:
    small = element("small", note) if note else EMPTY
    return element("div", element("dt", name), element("dd", element("b", value), " ", small))


def _savings_sentence(inline: int, kept: int, log_bytes: int) -> str:
    percent = round(100 * (1 - kept / inline))
    less = f"{percent} % less" if percent > 0 else "no less for so few bytes"
    times = inline // max(log_bytes, 1)
    smaller = f", and a log {times:,} times smaller" if times > 1 else ""
    return f"{size_text(kept)} instead of {size_text(inline)}: {less}{smaller}."


def _bar(name: str, size_bytes: int, longest: int, parts: tuple[tuple[int, str], ...]) -> Html:
    """Drawn with attributes: the page's policy allows no style in elements."""
    rects: list[Html] = []
    x = 0
    for part_bytes, kind in parts:
        width = max(2, round(_BAR_WIDTH * part_bytes / longest)) if part_bytes else 0
        rects.append(element("rect", x=x, y=0, width=width, height=12, class_=kind))
        x += width
    drawing = element(
        "svg",
        join(rects),
        viewBox=f"0 0 {_BAR_WIDTH} 12",
        preserveAspectRatio="none",
        class_="bar",
        aria_hidden="true",
    )
    said = element("div", element("span", name), element("b", size_text(size_bytes)))
    return element("div", said, drawing, class_="bar-row")


def _select(name: str, title: str, options: list[tuple[str, str]]) -> Html:
    if not options:
        return EMPTY
    every = element("option", "all", value="")
    listed = join(element("option", said, value=f"={value}") for value, said in options)
    return element("label", element("span", title), element("select", every, listed, id=name))
