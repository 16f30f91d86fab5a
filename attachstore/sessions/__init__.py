"""Session logs: events in, durable and chained; events out, proven.

`Sessions` is what users hold (asyncio), `SessionLogs` the blocking core below it, and
`SessionMedium` the seam that every medium keeps.
"""

from attachstore.sessions.data import references_in
from attachstore.sessions.event import (
    Damage,
    Event,
    Parent,
    RepairReport,
    SealReport,
    SessionHeader,
    SessionSummary,
    SessionView,
    Tail,
)
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.log import SessionLog
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.medium import SessionMedium
from attachstore.sessions.memory import MemoryMedium
from attachstore.sessions.session import Session
from attachstore.sessions.sessions import Sessions
from attachstore.sessions.write_behind import EmitPolicy

__all__ = [
    "Damage",
    "EmitPolicy",
    "Event",
    "JsonlMedium",
    "MemoryMedium",
    "Parent",
    "RepairReport",
    "SealReport",
    "Session",
    "SessionHeader",
    "SessionLog",
    "SessionLogs",
    "SessionMedium",
    "SessionSummary",
    "SessionView",
    "Sessions",
    "Tail",
    "references_in",
]
