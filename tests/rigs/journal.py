"""Journal: what a workload says that it tried, and what it was promised.

A record is written before an operation (`attempt`) and after it (`acknowledge`, `failed`), each
with one write to a descriptor outside of the store, so that it survives the kill of its process.
The oracle judges what is left of a store by these records and by nothing else.

Kinds, and the facts that the oracle looks at:

    object       digest, size                     an attachment is put
    events       id, handle, marks; when acknowledged also first_seq and chains
                                                  one batch; each event's data has one mark
    fork         id, parent, at                   a session is made of another
    deleted      id                               a session is deleted
    sealed, unsealed, repaired, loaded            id
    quarantined  digest                           a corrupt object is moved aside
    converted    to                               session logs go to another medium
    served       digest; acknowledged: actual     bytes are read and hashed
    state        path, digest                     a file outside of the store is replaced

    scanned      corrupt, lost, mended: digests; others: kinds of other faults
                                                  a scan ended, and said that

Only as a start (`given`), by what prepares a store:

    corrupt      digest                           the object's file was overwritten
    lost         digest                           the object's file was taken away
    checkpoint   path                             where scans keep how far they have come
    damaged      id, good_seq, bytes              an event line was overwritten
    tail         id, bytes                        hex of what follows the last good line

Only as what was `seen`, by the workload when it was over or by the rig:

    leak         what                             something of this process is still there
    fault        call, path, error                what was made to fail; the path is below root
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

Step = Literal["given", "attempt", "acknowledge", "failed", "seen"]


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a journal."""

    step: Step
    kind: str
    facts: dict[str, Any]

    def line(self) -> bytes:
        return json.dumps([self.step, self.kind, self.facts]).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        return cls(*json.loads(line))


class Journal:
    """Keeps records in `records`, and writes them to `descriptor` if there is one.

    With `keep_going` a workload goes on with its next operation after an error, as a caller does
    who logs errors and continues; else it ends there.
    """

    def __init__(self, descriptor: int | None = None, *, keep_going: bool = False) -> None:
        self.records: list[Record] = []
        self.keep_going = keep_going
        self._descriptor = descriptor

    def given(self, kind: str, **facts: Any) -> None:
        self.add(Record("given", kind, facts))

    def attempt(self, kind: str, **facts: Any) -> None:
        self.add(Record("attempt", kind, facts))

    def acknowledge(self, kind: str, **facts: Any) -> None:
        self.add(Record("acknowledge", kind, facts))

    def failed(self, kind: str, error_code: str, **facts: Any) -> None:
        """`error_code` is the error's, or "escaped:<class>" for one that is not the package's."""
        self.add(Record("failed", kind, {**facts, "error_code": error_code}))

    def seen(self, kind: str, **facts: Any) -> None:
        self.add(Record("seen", kind, facts))

    def add(self, record: Record) -> None:
        self.records.append(record)
        if self._descriptor is not None:
            os.write(self._descriptor, record.line())

    def extend(self, records: Iterable[Record]) -> None:
        for record in records:
            self.add(record)


def open_journal(path: Path) -> int:
    """A descriptor for `Journal`; what is in the file stays."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def read_journal(path: Path) -> list[Record]:
    """The records of a journal; a last line that was cut is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    return [Record.parse(line) for line in content.split(b"\n")[:-1]]
