"""SessionMedium: where session logs live. The contract every medium keeps.

A medium keeps one string of bytes per session and promises durability. It knows nothing of
lines, chains, damage or turns: `SessionLogs` does that once, above every medium. A medium that
does not store bytes (rows, frames) presents its records as the bytes of
docs/reference/formats-session-log.md and cuts where it is told to.

Every implementation passes tests/conformance/session_medium.py. The methods block; they may be
called from any thread, those of one writer by one thread at a time. Errors are the package's
own: `storage-*`, `resource-exhausted`, and those named below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, Self, runtime_checkable

from attachstore.sessions.glance import Glance
from attachstore.sessions.names import SessionName
from attachstore.threads import CancelFlag


class LogReader(Protocol):
    """A log opened for reading. What it reads may grow, and a tail may be cut, meanwhile."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def size(self) -> int:
        """The log's length now, in bytes."""
        ...

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes; fewer only at the end of the log."""
        ...

    def settle(self) -> int:
        """Make what is there durable, forget cached copies; return the length that holds for.

        After it `read` up to that length returns what the medium itself holds, so that nothing
        is believed which a power loss can still take away.
        """
        ...

    def close(self) -> None:
        """Safe to repeat."""
        ...


class LogWriter(LogReader, Protocol):
    """A log opened for appending, by whoever holds the session's claim."""

    def append(self, data: bytes, offset_bytes: int) -> None:
        """Add `data` at the end, which must be at `offset_bytes`. Durable on return.

        Raises LogPoisonedError if the log does not end there any more: nothing was written.
        After any other error an unknown part of `data` is there; nobody may append then until
        the log was opened anew.
        """
        ...

    def cut(self, offset_bytes: int) -> str:
        """Move what lies from `offset_bytes` on aside; return where it is kept.

        The copy is durable before the log gets shorter, and the shorter log on return.
        """
        ...


@runtime_checkable
class RestingWriter(LogWriter, Protocol):
    """A writer that keeps something ready behind the log's end while it is busy."""

    @property
    def is_ready(self) -> bool:
        """Whether it does so now."""
        ...

    def rest(self, end_bytes: int) -> None:
        """Leave nothing behind the log, which ends at `end_bytes`: nobody appends for a while."""
        ...


@runtime_checkable
class RepairingWriter(LogWriter, Protocol):
    """A writer that can cut a tail and add what closes an open turn in one step."""

    def repair(self, offset_bytes: int, closers: bytes) -> str:
        """As `cut`, and `closers` are the end of the log then; all of it happens, or nothing."""
        ...


class Claim(Protocol):
    """The right to write one session, of one holder at a time."""

    def release(self) -> None:
        """Safe to repeat. The death of the process releases it too."""
        ...


class SessionMedium(Protocol):
    """Session logs by name."""

    @property
    def location(self) -> str:
        """For messages."""
        ...

    def where(self, name: SessionName) -> str:
        """Where that session's log is or would be, for messages."""
        ...

    def claim(self, name: SessionName) -> Claim:
        """Take the writer's claim at once. Raises SessionBusyError, naming the holder."""
        ...

    def add(self, name: SessionName, content: Iterable[bytes]) -> LogWriter:
        """Make a log that holds `content`, whole and durable, or none at all; open it.

        Raises SessionExistsError. If `content` raises, nothing stays. The caller holds the claim.
        """
        ...

    def open(self, name: SessionName) -> LogReader:
        """Raises SessionMissingError. Needs no claim and writes nothing."""
        ...

    def open_writer(self, name: SessionName) -> LogWriter:
        """Raises SessionMissingError. The caller holds the claim."""
        ...

    def exists(self, name: SessionName) -> bool:
        """Whether there is a log under that name, whole or not."""
        ...

    def names(self) -> Iterator[SessionName]:
        """Every session that has a log, whole or not, in ascending order of segments."""
        ...

    def cuts(self, name: SessionName) -> int:
        """How often bytes were cut off the log so far; 0 if there is none. Never counts down."""
        ...

    def strays(self) -> Iterator[str]:
        """Where the medium holds things that belong to no session, for a scan to report."""
        ...

    def delete(self, name: SessionName) -> None:
        """Remove the log at once and durably, and what was kept beside it.

        Raises SessionMissingError. The caller holds the claim.
        """
        ...

    def close(self) -> None:
        """Safe to repeat. Open readers and writers are closed by those who opened them."""
        ...


@runtime_checkable
class CopyingMedium(SessionMedium, Protocol):
    """A medium that can copy a part of one of its logs by itself, without reading it out."""

    def add_copy(
        self,
        name: SessionName,
        header_line: bytes,
        parent: SessionName,
        *,
        start_bytes: int,
        end_bytes: int,
        last_line_end: bytes,
    ) -> LogWriter | None:
        """As `add`, with the header and the parent's bytes from `start_bytes` to `end_bytes`.

        None, and nothing stays, if those do not end in `last_line_end` any more or have gaps.
        """
        ...


@runtime_checkable
class GlancingMedium(SessionMedium, Protocol):
    """A medium that can show what a listing needs of many logs, for less than opening each."""

    def glances(self) -> Iterator[tuple[SessionName, Glance | None]]:
        """As `names`, each with a glance at its log, or None if it has to be opened for that.

        May name a session whose log is gone, with None.
        """
        ...


@runtime_checkable
class SelfCheckingMedium(SessionMedium, Protocol):
    """A medium that knows more of its own damage than reading its logs shows."""

    def complaints(self, cancel: CancelFlag) -> list[str]:
        """What is wrong with it, a line each; [] if nothing. Writes nothing.

        Raises Cancelled, StoreLayoutError.
        """
        ...


@runtime_checkable
class SealingMedium(SessionMedium, Protocol):
    """A medium that can keep a log in less room. Neither readers nor writers see a difference.

    The caller holds the claim for both methods.
    """

    def seal(
        self,
        name: SessionName,
        check: Callable[[LogReader], None],
        cancel: CancelFlag | None = None,
    ) -> int:
        """Seal the log; return how many bytes it takes now. One that is sealed is packed anew.

        The caller has settled it. `check` is given the sealed log before it takes the other's
        place; if it raises, nothing has changed.

        Raises SessionMissingError, MissingDependencyError.
        """
        ...

    def unseal(self, name: SessionName, cancel: CancelFlag | None = None) -> None:
        """Take back a `seal`. Nothing is done if the log is not sealed, or if there is none.

        Raises StoreLayoutError if what was sealed is damaged; only a torn end is unsealed as far
        as it goes, and kept aside.
        """
        ...
