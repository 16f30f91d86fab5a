"""Events, sessions and references as JSON and as text: the same in every command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attachstore.cli.output import dimensions, human_size, visible

if TYPE_CHECKING:
    from attachstore.reference import Reference
    from attachstore.sessions.event import Event, Parent, SessionSummary, SessionView

_TO_THE_SECOND = len("2026-11-29T23:22:19")


def wire(data: object) -> Any:
    """An event's data in its written form: what `session append` takes on standard input."""
    from attachstore.sessions.data import encode

    return json.loads(encode(data, where="event")[0])


def event_as_json(event: Event) -> dict[str, Any]:
    """All of an event but where its line stands."""
    found: dict[str, Any] = {
        "seq": event.seq,
        "time": event.time,
        "type": event.type,
        "data": wire(event.data),
        "chain": event.chain,
    }
    if event.batch is not None:
        found["batch"] = event.batch
    if not event.verified:
        found["verified"] = False
    return found


def event_as_text(event: Event, width: int | None) -> str:
    """`seq  time  type  data`; in full, or made to fit a terminal of `width` columns."""
    data = visible(json.dumps(wire(event.data), ensure_ascii=False, separators=(",", ":")))
    text = f"{event.seq:>4}  {time_as_text(event.time, width)}  {visible(event.type)}  {data}"
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"


def time_as_text(time: str | None, width: int | None) -> str:
    """In full, or to the second for people at a terminal."""
    if time is None:
        return "-"
    return time if width is None else time[:_TO_THE_SECOND].replace("T", " ")


def reference_as_text(reference: Reference, *, exact: bool) -> str:
    """`blake3:<hex>  media type  WxH  size  name`; the size in bytes if `exact`."""
    size = str(reference.size) if exact else human_size(reference.size)
    columns = (
        str(reference.digest),
        reference.media_type,
        dimensions(reference.width, reference.height),
        size,
        visible(reference.name or "-"),
    )
    return "  ".join(columns)


def parent_as_json(parent: Parent | None) -> dict[str, Any] | None:
    if parent is None:
        return None
    return {"id": parent.id, "seq": parent.seq, "chain": parent.chain}


def summary_as_json(summary: SessionSummary) -> dict[str, Any]:
    """One session of `session list`."""
    return {
        "id": summary.id,
        "title": summary.title,
        "meta": dict(summary.meta),
        "head_seq": summary.head_seq,
        "head_chain": summary.head_chain,
        "size_bytes": summary.size_bytes,
        "last_time": summary.last_time,
        "parent": parent_as_json(summary.parent),
        "problem": summary.problem.details() if summary.problem else None,
    }


def view_as_json(view: SessionView) -> dict[str, Any]:
    """What `session show` and `session verify` know of a log."""
    tail, damage = view.tail, view.damage
    return {
        "id": view.header.id,
        "title": view.header.title,
        "meta": dict(view.header.meta),
        "created_at": view.header.created_at,
        "cwd": view.header.cwd,
        "parent": parent_as_json(view.header.parent),
        "head_seq": view.head_seq,
        "head_chain": view.head_chain,
        "size_bytes": view.size_bytes,
        "last_time": view.last_time,
        "closers": [event_as_json(event) for event in view.closers],
        "tail": tail
        and {
            "offset_bytes": tail.offset_bytes,
            "size_bytes": tail.size_bytes,
            "reason": tail.reason,
        },
        "damage": damage
        and {"line": damage.line, "offset_bytes": damage.offset_bytes, "reason": damage.reason},
    }
