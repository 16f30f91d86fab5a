"""Store.uses: who decides by it what may be removed must not miss a session."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from attachstore import Reference, Store
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, LogDamagedError, StorageIOError, UnavailableError
from attachstore.sessions.medium import LogReader
from attachstore.sessions.names import SessionName
from attachstore.status import Use

LONG_ID = "s-2/" + "x" * 300
IDS = ("s-1", LONG_ID, "s-3")


class Hiding(Disk):
    """Refuses to open, or to find, the files whose paths hold `part`."""

    part = "no file"
    error = errno.EACCES

    def open_read(self, path: Path | str) -> int:
        if self.part in str(path):
            raise OSError(self.error, os.strerror(self.error))
        return super().open_read(path)


@pytest.fixture
def disk() -> Hiding:
    return Hiding()


@pytest.fixture
async def store(tmp_path: Path, disk: Hiding) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "store", disk=disk) as store:
        yield store


@pytest.fixture
async def reference(store: Store) -> Reference:
    """In the second of three events of each session."""
    reference = await store.attach(b"hello\n")
    for session_id in IDS:
        async with await store.sessions.create(session_id) as session:
            for data in (1, [reference], 3):
                await session.append("message", data)
    return reference


def log_of(store: Store, start: str) -> Path:
    (log,) = (store.root / "sessions").glob(f"{start}*/log.jsonl")
    return log


async def found(store: Store, reference: Reference) -> tuple[list[Use], AttachstoreError | None]:
    uses: list[Use] = []
    try:
        async for use in store.uses(reference):
            uses.append(use)  # noqa: PERF401 - kept if there is an error
    except AttachstoreError as error:
        return uses, error
    return uses, None


async def test_uses_are_those_of_a_reference_or_a_digest(
    store: Store, reference: Reference
) -> None:
    uses, error = await found(store, reference)

    assert error is None
    assert [(use.session_id, use.seq, use.pointer) for use in uses] == [(i, 2, "/0") for i in IDS]
    assert uses == [use async for use in store.uses(reference.digest)]
    with pytest.raises(TypeError, match="Reference or a Digest"):
        store.uses(str(reference.digest))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO])
async def test_a_log_that_cannot_be_read_is_an_error_after_all_other_uses(
    store: Store, reference: Reference, disk: Hiding, error: int
) -> None:
    disk.part, disk.error = "sessions/s-1/log.jsonl", error

    uses, raised = await found(store, reference)

    assert [use.session_id for use in uses] == [LONG_ID, "s-3"]
    assert isinstance(raised, UnavailableError)
    assert "sessions/s-1/" in raised.where


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"$attach"', b'"$att\0ch"'),  # a line that does not parse
        (b"blake3:", b"blake4:"),
        (b'"data":3', b'"data":4'),  # one that does: what stood there is not known
        (b'"attachstore":"session"', b'"attachstore":"sess\0on"'),
    ],
)
@pytest.mark.parametrize("start", ["s-1", "s-2", "s-3"])
async def test_damage_is_an_error_after_all_other_uses(
    store: Store, reference: Reference, start: str, old: bytes, new: bytes
) -> None:
    log = log_of(store, start)
    before = log.read_bytes()
    log.write_bytes(before.replace(old, new))
    hides_it = b"$attach" not in log.read_bytes() or b"blake4" in log.read_bytes()

    uses, raised = await found(store, reference)

    assert len(uses) == (2 if hides_it else 3)
    assert isinstance(raised, LogDamagedError)
    assert raised.where == str(log)
    assert raised.session.startswith(start)


async def test_the_first_of_several_errors_is_raised(store: Store, reference: Reference) -> None:
    for start in ("s-1", "s-3"):
        log = log_of(store, start)
        log.write_bytes(log.read_bytes().replace(b"blake3:", b"blake4:"))

    uses, raised = await found(store, reference)

    assert [use.session_id for use in uses] == [LONG_ID]
    assert isinstance(raised, LogDamagedError)
    assert raised.session == "s-1"


async def test_a_torn_tail_hides_nothing(store: Store, reference: Reference) -> None:
    with log_of(store, "s-1").open("ab") as log:
        log.write(b'{"seq":4,')

    uses, raised = await found(store, reference)

    assert (len(uses), raised) == (3, None)


async def test_a_session_that_vanishes_meanwhile_is_passed_over(
    store: Store, reference: Reference, disk: Hiding
) -> None:
    disk.part, disk.error = "sessions/s-1/log.jsonl", errno.ENOENT

    uses, raised = await found(store, reference)

    assert ([use.session_id for use in uses], raised) == ([LONG_ID, "s-3"], None)


async def test_what_no_longer_answers_in_a_database_is_said_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Store.open(tmp_path / "store", sessions="sqlite") as store:
        reference = await store.attach(b"hello\n")
        for session_id in ("s-1", "s-2"):
            async with await store.sessions.create(session_id) as session:
                await session.append("message", reference)
        medium = store.logs.medium
        opened = medium.open

        def fail_once(name: SessionName) -> LogReader:
            if name.id == "s-1":
                raise StorageIOError(where=medium.location, reason="disk I/O error")
            return opened(name)

        monkeypatch.setattr(medium, "open", fail_once)
        uses, raised = await found(store, reference)

    assert [use.session_id for use in uses] == ["s-2"]
    assert isinstance(raised, StorageIOError)
    assert raised.where.endswith("sessions.db#s-1")
