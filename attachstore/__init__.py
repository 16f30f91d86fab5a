"""attachstore: content-addressed attachments, and the session logs that refer to them.

    async with Store.open("path") as store:
        reference = await store.attach(b"...", name="shot.png")
        session = await store.sessions.create("s-1")
        await session.append("message", {"role": "user", "content": [reference]})

The public names, nothing else. They are looked up when first used, so that importing the package
costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    message = "attachstore needs POSIX file systems and does not run on Windows; use WSL"
    raise ImportError(message)

if TYPE_CHECKING:
    from attachstore.admission.policy import AdmissionPolicy
    from attachstore.conversion.asynchronous import convert_sessions
    from attachstore.conversion.report import ConversionReport
    from attachstore.digest import Digest
    from attachstore.errors import AttachstoreError
    from attachstore.integrity.report import Finding, ScanReport
    from attachstore.objects.intake import IntakePolicy
    from attachstore.objects.store import CommitOutcome, Committed
    from attachstore.reference import Reference
    from attachstore.replay.steps import Outcome, Resolved, Step
    from attachstore.sessions.event import Event, SessionHeader, SessionSummary, SessionView
    from attachstore.sessions.lineage import Branch
    from attachstore.sessions.session import Session
    from attachstore.sessions.sessions import Sessions
    from attachstore.sessions.write_behind import EmitPolicy
    from attachstore.status import ObjectStatus, Use
    from attachstore.store import Store
    from attachstore.streams import AttachmentStream, Offer

_HOMES = {
    "AdmissionPolicy": "admission.policy",
    "AttachmentStream": "streams",
    "AttachstoreError": "errors",
    "Branch": "sessions.lineage",
    "CommitOutcome": "objects.store",
    "Committed": "objects.store",
    "ConversionReport": "conversion.report",
    "Digest": "digest",
    "EmitPolicy": "sessions.write_behind",
    "Event": "sessions.event",
    "Finding": "integrity.report",
    "IntakePolicy": "objects.intake",
    "ObjectStatus": "status",
    "Offer": "streams",
    "Outcome": "replay.steps",
    "Reference": "reference",
    "Resolved": "replay.steps",
    "ScanReport": "integrity.report",
    "Session": "sessions.session",
    "SessionHeader": "sessions.event",
    "SessionSummary": "sessions.event",
    "SessionView": "sessions.event",
    "Sessions": "sessions.sessions",
    "Step": "replay.steps",
    "Store": "store",
    "Use": "status",
    "convert_sessions": "conversion.asynchronous",
}

__all__ = [
    "AdmissionPolicy",
    "AttachmentStream",
    "AttachstoreError",
    "Branch",
    "CommitOutcome",
    "Committed",
    "ConversionReport",
    "Digest",
    "EmitPolicy",
    "Event",
    "Finding",
    "IntakePolicy",
    "ObjectStatus",
    "Offer",
    "Outcome",
    "Reference",
    "Resolved",
    "ScanReport",
    "Session",
    "SessionHeader",
    "SessionSummary",
    "SessionView",
    "Sessions",
    "Step",
    "Store",
    "Use",
    "convert_sessions",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
