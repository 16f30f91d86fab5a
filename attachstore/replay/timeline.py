"""Timeline: the events of a session as the page's list, one at a time.

What an event says comes first (its text and attachments, in their order), its other fields
after it, collapsed. Shapes that chat runtimes use are recognised (`role`, `content` as text or
as a list of parts); any other data is shown as the tree it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import partial
from typing import Any, cast

from attachstore.replay.cards import card, kind_of
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
from attachstore.replay.pictures import Pictures
from attachstore.replay.steps import Outcome, Step
from attachstore.replay.tree import Tree, escape_pointer
from attachstore.sessions.event import Event, Parent

TEXT_CHARS_SHOWN = 1200
TEXT_CHARS_MAX = 8000
CARDS_MAX = 1000
"""Attachments drawn of one event."""
PARTS_MAX = 200
"""Texts and values drawn of one event's content."""
_TYPE_CHARS_MAX = 60
_SAID = ("content", "text")
_ROLES = frozenset({"user", "assistant", "tool", "system"})
_DAY = slice(0, 10)
_CLOCK = slice(11, 19)


class Timeline:
    """Draws steps in order, and between them what a reader should not miss."""

    def __init__(self, pictures: Pictures, parent: Parent | None) -> None:
        self._pictures = pictures
        self._parent = parent
        self._last_seq = 0
        self._drawn = 0
        self._day = ""

    def draw(self, step: Step) -> tuple[str, Html]:
        """The step's anchor, and its list item with dividers for days, gaps and the fork."""
        event = step.event
        anchor = self._anchor(event)
        before = join([self._gap(event), self._new_day(event)])
        article = _article(step, anchor, self._cards(step, anchor))
        item = element("li", article, **_filter_data(step), class_=_role(event) or None)
        self._drawn += 1
        self._last_seq = max(self._last_seq, event.seq)
        return anchor, join([before, item, self._fork(event)])

    def skip(self, step: Step) -> str:
        """Note a step that is not drawn; the anchor is the list's end."""
        self._last_seq = max(self._last_seq, step.event.seq)
        return "end"

    def _anchor(self, event: Event) -> str:
        """`e12`; a damaged log may hold a number twice."""
        return f"e{event.seq}" if event.seq > self._last_seq else f"e{event.seq}-{self._drawn}"

    def _cards(self, step: Step, anchor: str) -> dict[str, Callable[[], Html]]:
        """How to draw the attachment at each pointer. Drawn late: only what is shown costs."""
        drawn = {
            resolved.pointer: partial(card, resolved, card_anchor(anchor, at), self._pictures)
            for at, resolved in enumerate(step.attachments[:CARDS_MAX], start=1)
        }
        nothing = dict.fromkeys((it.pointer for it in step.attachments[CARDS_MAX:]), _not_drawn)
        return {**drawn, **nothing}

    def _gap(self, event: Event) -> Html:
        first, last = self._last_seq + 1, event.seq - 1
        if last < first:
            return EMPTY
        lost = f"Event {first} is" if first == last else f"Events {first} to {last} are"
        return _divider(join([icon("bad"), f"{lost} not readable in the log"]), "gap")

    def _new_day(self, event: Event) -> Html:
        day = event.time[_DAY]
        if day == self._day:
            return EMPTY
        self._day = day
        return _divider(element("time", _day_text(day), datetime=day), "day")

    def _fork(self, event: Event) -> Html:
        if self._parent is None or event.seq != self._parent.seq:
            return EMPTY
        name, _ = excerpt(self._parent.id, 80)
        words = join(["Forked here from ", element("bdi", name), f" at event {event.seq}"])
        return _divider(join([icon("fork"), words]), "fork")


def card_anchor(event_anchor: str, number: int) -> str:
    """The anchor of an event's n-th attachment; the event's own where that is not drawn."""
    return f"{event_anchor}-a{number}" if number <= CARDS_MAX else event_anchor


def worst_outcome(step: Step) -> Outcome | None:
    """The first outcome that is not `ok`, else `ok`; None without attachments."""
    outcomes = [each.outcome for each in step.attachments]
    bad = (outcome for outcome in outcomes if outcome is not Outcome.OK)
    return next(bad, Outcome.OK) if outcomes else None


def _filter_data(step: Step) -> dict[str, str | None]:
    outcomes = sorted({each.outcome for each in step.attachments})
    kinds = sorted({kind_of(each.reference.media_type) for each in step.attachments})
    return {
        "data_type": excerpt(step.event.type, _TYPE_CHARS_MAX)[0],
        "data_outcomes": " ".join(outcomes) or None,
        "data_kinds": " ".join(kinds) or None,
    }


def _day_text(day: str) -> str:
    try:
        return f"{date.fromisoformat(day):%A, %-d %B %Y}, UTC"
    except ValueError:  # a time from a damaged line
        return day


def _not_drawn() -> Html:
    return EMPTY


def _divider(content: Html, kind: str) -> Html:
    return element("li", content, class_=f"divider {kind}")


def _article(step: Step, anchor: str, cards: dict[str, Callable[[], Html]]) -> Html:
    event = step.event
    heading = element(
        "header",
        element("a", f"#{event.seq}", href=f"#{anchor}", class_="seq"),
        element("span", _role(event) or "", class_="role") if _role(event) else EMPTY,
        element("bdi", excerpt(event.type, _TYPE_CHARS_MAX)[0], class_="type"),
        EMPTY if event.verified else element("span", "after damage, not chained", class_="warn"),
        element("time", event.time[_CLOCK], datetime=event.time, title=event.time),
    )
    body = _Body(Tree(cards, lambda pointer: cards[pointer]())).draw(event.data)
    return element("article", heading, body, id=anchor, class_=f"event {worst_outcome(step) or ''}")


def _role(event: Event) -> str:
    """One of the known roles, so that it may be a class name, else nothing."""
    data = event.data
    role = cast("dict[str, Any]", data).get("role") if isinstance(data, dict) else None
    return role if isinstance(role, str) and role in _ROLES else ""


class _Body:
    """What one event holds."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def draw(self, data: Any) -> Html:
        if not isinstance(data, dict):
            return element("div", self._tree.value(data, ""), class_="body")
        fields = cast("dict[str, Any]", data)
        said = next((key for key in _SAID if isinstance(fields.get(key), str | list)), None)
        known_role = isinstance(fields.get("role"), str) and fields["role"] in _ROLES
        hidden = {said} | ({"role"} if known_role else set[str]())
        others = {key: value for key, value in fields.items() if key not in hidden}
        parts = [] if said is None else [self._said(fields[said], f"/{said}")]
        if others:
            parts.append(self._others(others, collapsed=said is not None))
        return element("div", join(parts), class_="body")

    def _said(self, content: str | list[Any], pointer: str) -> Html:
        if isinstance(content, str):
            return text_block(content)
        pointers = [f"{pointer}/{at}" for at in range(len(content))]
        return join(self._grouped(zip(content, pointers, strict=True)))

    def _grouped(self, parts: Iterable[tuple[Any, str]]) -> Iterator[Html]:
        """Attachments that follow each other stand side by side."""
        left = PARTS_MAX
        for are_cards, group in itertools.groupby(
            parts, lambda it: self._tree.is_attachment(it[1])
        ):
            if are_cards:
                drawn = join(self._tree.value(part, below) for part, below in group)
                yield element("div", drawn, class_="cards")
                continue
            for part, below in group:
                left -= 1
                if left >= 0 or self._tree.holds_attachment(below):
                    yield self._part(part, below)
        if left < 0:
            yield element("p", f"{count_text(-left, 'more part')} not shown", class_="cut")

    def _part(self, part: Any, pointer: str) -> Html:
        if isinstance(part, str):
            return text_block(part)
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            text = fields.get("text")
            if fields.get("type") == "text" and isinstance(text, str):
                return text_block(text)
        return self._tree.value(part, pointer)

    def _others(self, others: dict[str, Any], *, collapsed: bool) -> Html:
        keys = [f"/{escape_pointer(key)}" for key in others]
        if len(others) == 1 and self._tree.is_attachment(keys[0]):
            return element("div", self._tree.value(None, keys[0]), class_="cards")
        fields = self._tree.fields(others, "")
        if not collapsed or any(map(self._tree.holds_attachment, keys)):
            return fields
        names, left_out = excerpt(", ".join(others), 60)
        summary = element("summary", element("bdi", f"{names}…" if left_out else names))
        return element("details", summary, fields, class_="tree others")


def text_block(value: str) -> Html:
    """A text as it was written, long ones folded, very long ones cut."""
    if not value.strip():
        return EMPTY
    shown, left_out = excerpt(value, TEXT_CHARS_SHOWN)
    parts = [element("p", shown, class_="text", dir="auto")]
    if left_out:
        rest, cut = excerpt(value[len(shown) :][: TEXT_CHARS_MAX + 1], TEXT_CHARS_MAX)
        not_shown = left_out - len(rest)
        note = (
            f"… {count_text(not_shown, 'more character')} not shown, {size_text(len(value))} in all"
        )
        parts.append(
            element(
                "details",
                element("summary", f"{left_out:,} more characters"),
                element("p", rest, class_="text", dir="auto"),
                element("p", note, class_="cut") if cut else EMPTY,
                class_="more",
            )
        )
    return join(parts)
