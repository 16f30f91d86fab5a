"""PageWriter: a session as one HTML file that needs nothing else and runs nobody's code.

   steps ──▶ timeline ──▶ draft beside the target ─┐
       └──▶ totals ──▶ what stands above it ───────┴──▶ page, appears whole under its name

(1) All content of the session reaches the page through `markup`, which escapes it; no
    attachment is put into it but pictures that were decoded and encoded anew.
(2) The page's own policy lets nothing load and nothing run but its own style and script, by
    their hashes, and data: images.
(3) Memory and file size are bounded: beyond EVENTS_MAX events or BODY_BYTES_MAX bytes only
    events with problems are drawn. All are counted.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from string import Template
from types import TracebackType
from typing import Self

from attachstore.admission import thumbnail
from attachstore.destination import destination_errors
from attachstore.disk import Disk, is_regular, read_all, storage_errors
from attachstore.errors import AttachstoreError, DestinationError
from attachstore.layout import refuse_inside
from attachstore.objects.store import ObjectStore
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
from attachstore.replay.output import Draft
from attachstore.replay.pictures import BYTES_MAX, Pictures
from attachstore.replay.steps import Outcome, Step, drain
from attachstore.replay.summary import Totals, controls, savings, tiles, verdict
from attachstore.replay.timeline import Timeline, card_anchor, worst_outcome
from attachstore.replay.tree import Tree
from attachstore.sessions.event import SessionView
from attachstore.threads import CancelFlag

EVENTS_MAX = 20_000
EVENTS_LAID_OUT_MAX = 400
"""A longer page is laid out by the browser as it is scrolled to."""
BODY_BYTES_MAX = 48 << 20
PROBLEMS_DRAWN_MAX = 1_000
_SIGNATURE = "<!doctype html>\n<!-- attachstore replay page -->\n"
_BODY = "<!-- timeline -->"
_TITLE_CHARS_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport:
    """What was written."""

    path: Path
    size_bytes: int
    events: int
    attachments: int
    broken: int


class PageWriter:
    """Draws steps as they come. As a context manager it leaves nothing unless `publish` ran."""

    def __init__(
        self,
        path: Path,
        view: SessionView,
        objects: ObjectStore,
        *,
        at: int | None = None,
        previews_bytes_max: int = BYTES_MAX,
        disk: Disk | None = None,
        cancel: CancelFlag | None = None,
    ) -> None:
        """`at`: the last event that will come, if not all do. `previews_bytes_max`: what all
        thumbnails and excerpts together may take in the file.

        An earlier page at `path` is replaced at the end; anything else there is kept.

        Raises:
            DestinationError: `path` is something else or lies in a store, or its folder does
                not exist.
        """
        self._path = path
        self._view = view
        self._at = at
        self._disk = disk or Disk()
        self._cancel = cancel
        self._objects = objects
        _check_target(self._disk, path)
        self._pictures = Pictures(self._read, thumbnail, previews_bytes_max)
        self._timeline = Timeline(self._pictures, view.header.parent)
        self._totals = Totals()
        self._problems_drawn = 0
        self._log_problem = _problem_of(view, at)
        self._log_bytes = 0
        self._body = Draft(self._disk, path.parent)

    def add(self, step: Step) -> None:
        """Draw one step. Reads its images and texts once more, for their previews."""
        totals = self._totals
        totals.add(step)
        self._log_bytes = step.event.offset_bytes
        is_bad = worst_outcome(step) not in (None, Outcome.OK)
        full = totals.events > EVENTS_MAX or self._body.size_bytes > BODY_BYTES_MAX
        if full and not (is_bad and self._problems_drawn < PROBLEMS_DRAWN_MAX):
            totals.undrawn += 1
            anchor = self._timeline.skip(step)
        else:
            self._problems_drawn += is_bad
            anchor, drawn = self._timeline.draw(step)
            self._body.write(drawn.encode())
        for number, resolved in enumerate(step.attachments, start=1):
            if resolved.error is not None:
                totals.add_problem(step.event.seq, card_anchor(anchor, number), resolved)

    def note(self, error: AttachstoreError) -> None:
        """Say on the page that reading ended here, and why."""
        self._log_problem = str(error)

    def publish(self) -> PageReport:
        """Put the page under its name, durably. Raises UnavailableError."""
        head, tail = Template(_asset("page.html")).substitute(self._parts()).split(_BODY)
        with self._body, Draft(self._disk, self._path.parent) as page:
            page.write(head.encode())
            page.copy_from(self._body)
            self._body.discard()  # before the sync, which makes that durable too
            page.write(tail.encode())
            page.publish(self._path)
            with storage_errors(self._path.parent):
                self._disk.sync_directory(self._path.parent)
            return PageReport(
                path=self._path,
                size_bytes=page.size_bytes,
                events=self._totals.events,
                attachments=self._totals.attachments,
                broken=self._totals.broken,
            )

    def discard(self) -> None:
        """Leave nothing behind; after `publish` it does nothing."""
        self._body.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()

    def _read(self, reference: Reference, size_bytes: int) -> bytes:
        """The first `size_bytes` verified bytes of an object."""
        stream = self._objects.stream(reference, self._cancel)
        try:
            front = bytearray()
            while len(front) < size_bytes and (block := stream.read_block()):
                front += block
            return bytes(front[:size_bytes])
        finally:
            stream.close()

    def _parts(self) -> dict[str, str]:
        """What the template's places hold."""
        totals = self._totals
        all_known = self._at is None and self._view.has_header
        log_bytes = self._view.size_bytes if all_known else self._log_bytes
        style, script = _asset("page.css"), _asset("page.js")
        return {
            "signature": _SIGNATURE,
            "policy": _policy(style, script),
            "style": style,
            "script": script,
            "title": element("title", f"{_title(self._view)} · attachstore replay"),
            "masthead": _masthead(self._view, self._at),
            "verdict": verdict(totals, self._log_problem),
            "tiles": tiles(totals, log_bytes),
            "savings": savings(totals, log_bytes),
            "controls": controls(totals),
            "length": "timeline long" if totals.events > EVENTS_LAID_OUT_MAX else "timeline",
            "notes": _notes(self._view, totals, self._pictures.left_out),
            "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        }


def write_page(
    steps: Iterable[Step],
    path: Path,
    view: SessionView,
    objects: ObjectStore,
    *,
    at: int | None = None,
    disk: Disk | None = None,
    cancel: CancelFlag | None = None,
) -> PageReport:
    """Write the page of a session: `view` and the `steps` of one `replay`.

    If the steps end in an error (`log-damaged`), the page is written with what came before and
    says so; then the error is raised.

    Raises:
        DestinationError: something else is at `path`; nothing was written.
        UnavailableError: the page could not be written; nothing is left behind.
    """
    with PageWriter(path, view, objects, at=at, disk=disk, cancel=cancel) as page:
        failure = drain(steps, page.add)
        if failure is not None:
            page.note(failure)
        report = page.publish()
    if failure is not None:
        raise failure
    return report


@functools.cache
def _asset(name: str) -> str:
    return resources.files("attachstore.replay").joinpath(name).read_text("utf-8")


def _policy(style: str, script: str) -> Html:
    """Content Security Policy level 3: only what has one of these hashes is applied or run."""
    rules = [
        "default-src 'none'",
        "img-src data:",
        f"style-src 'sha256-{_hash(style)}'",
        f"script-src 'sha256-{_hash(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return element("meta", http_equiv="Content-Security-Policy", content="; ".join(rules))


def _hash(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _check_target(disk: Disk, path: Path) -> None:
    """Refuse to replace anything but a page that was written here before."""
    refuse_inside(disk, path)
    where = ascii(str(path))[1:-1]
    with storage_errors(path), destination_errors(path):
        try:
            is_file = is_regular(disk.status(path))
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise DestinationError(where=where, reason="its folder is not a folder") from None
        if not is_file:
            raise DestinationError(where=where, reason="something that is no file is there")
        descriptor = disk.open_read(path)
        try:
            front = read_all(disk, descriptor, len(_SIGNATURE))
        finally:
            disk.close(descriptor)
    if front != _SIGNATURE.encode():
        raise DestinationError(where=where, reason="the file there is not a replay page")


def _problem_of(view: SessionView, at: int | None) -> str | None:
    """The log's damage, unless all that was asked for comes before it."""
    damage = view.damage_up_to(at)
    if damage is None:
        return None
    place = f"line {damage.line:,}, byte {damage.offset_bytes:,}"
    return f"The log is damaged at {place}: {damage.reason}."


def _title(view: SessionView) -> str:
    return excerpt(view.header.title or view.header.id, _TITLE_CHARS_MAX)[0]


def _masthead(view: SessionView, at: int | None) -> Html:
    facts = [("Session", element("bdi", excerpt(view.header.id, _TITLE_CHARS_MAX)[0]))]
    if view.has_header:
        facts += _said_by_header(view, at)
    rows = join(element("div", element("dt", key), element("dd", value)) for key, value in facts)
    meta = view.header.meta
    fields = Tree((), lambda _: EMPTY).fields(meta, "") if meta else EMPTY
    more = element("details", element("summary", "Meta"), fields, class_="tree") if meta else EMPTY
    title = element("h1", element("bdi", _title(view)))
    return join([title, element("dl", rows, class_="about"), more])


def _said_by_header(view: SessionView, at: int | None) -> Iterator[tuple[str, Html]]:
    header = view.header
    yield "Created", element("time", header.created_at[:19].replace("T", " ") + " UTC")
    if header.cwd:
        yield "Folder", element("bdi", header.cwd)
    if header.parent:
        name = element("bdi", excerpt(header.parent.id, _TITLE_CHARS_MAX)[0])
        yield "Forked from", join([icon("fork"), name, f" at event {header.parent.seq}"])
    head = f"event {view.head_seq:,}" if view.head_seq else "no event yet"
    chain = element("code", view.head_chain, class_="chain", title="Chain: the history's checksum")
    yield "Head", join([head, " ", chain])
    if at is not None and at < view.head_seq:
        yield "Shown", element("span", f"up to event {at:,}")


def _notes(view: SessionView, totals: Totals, previews_left_out: int) -> Html:
    """What the page does not show, so that nobody takes it for all there is."""
    notes: list[str] = []
    if view.closers:
        notes.append("The last turn is open; resuming the session would close it.")
    if view.tail:
        size = size_text(view.tail.size_bytes)
        notes.append(f"{size} at the end of the log were never acknowledged and are passed over.")
    if totals.undrawn:
        events = count_text(totals.undrawn, "event")
        notes.append(f"{events} more were read and counted, and are not drawn: the page is full.")
    if previews_left_out:
        notes.append(f"{count_text(previews_left_out, 'preview')} did not fit into the page.")
    return join(element("p", note, class_="note") for note in notes)
