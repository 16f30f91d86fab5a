"""blocking.Store: the same store, the same names, no event loop to be seen."""

from __future__ import annotations

import inspect
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import attachstore
from attachstore import Digest, blocking
from attachstore.errors import (
    ObjectMissingError,
    ResourceExhaustedError,
    StorageIOError,
    StoreMissingError,
)
from attachstore.readback import Readback
from tests.descriptors import open_descriptors
from tests.faults import FailingDisk

TEXT = b"hello\n"


def public(kind: type) -> dict[str, inspect.Signature | None]:
    """Public names and the parameters of those that are functions."""
    return {
        name: inspect.signature(member) if callable(member) else None
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("blocking_kind", "asynchronous_kind", "left_out"),
    [
        (blocking.Session, attachstore.Session, set[str]()),
        # Sessions are closed with the store.
        (blocking.Sessions, attachstore.Sessions, {"close_all"}),
        (blocking.Store, attachstore.Store, set[str]()),
        (blocking.Readback, Readback, set[str]()),
    ],
)
def test_every_public_name_is_there_with_the_same_parameters(
    blocking_kind: type, asynchronous_kind: type, left_out: set[str]
) -> None:
    """A skin that forgets a method or renames an argument is a second API."""
    ours, theirs = public(blocking_kind), public(asynchronous_kind)

    assert theirs.keys() - left_out <= ours.keys()
    for name in theirs.keys() - left_out:
        signature, other = ours[name], theirs[name]
        if signature is not None and other is not None:
            assert list(signature.parameters) == list(other.parameters), name


def test_the_whole_line_works_without_asyncio(tmp_path: Path) -> None:
    with blocking.Store.open(tmp_path / "store") as store:
        reference = store.attach(TEXT, name="a.txt")
        session = store.sessions.create("s-1", meta={"title": "t"})
        session.append("message", {"file": reference})
        session.attach(io.BytesIO(b"more"), name="b.txt")
        session.append_many([("a", 1), ("b", 2)])
        child = store.sessions.fork("s-1", id="s-2", at=2)
        child.append("end", None)
        store.sessions.close("s-1")
        store.sessions.delete("s-1")

        assert [event.type for event in store.sessions.read("s-2")] == [
            "message",
            "attachment",
            "end",
        ]
        assert [step.error for step in store.replay("s-2")] == [None] * 3
        readback = store.readback("s-2")
        assert readback.view().head_seq == 3
        assert len(list(readback.steps())) == 3
        assert readback.export(tmp_path / "files").files == 2
        assert readback.write_page(tmp_path / "page.html").path.is_file()
        assert store.read(reference) == TEXT
        with store.open_attachment(reference) as stream:
            assert b"".join(stream) == TEXT
        store.copy_to(reference, tmp_path / "out")
        assert store.resolve(reference.digest.hex[:8]) == reference.digest
        assert set(store.list()) == {reference.digest, Digest.of(b"more")}
        assert [use.session_id for use in store.uses(reference.digest)] == ["s-2"]
        assert store.scan().clean
        assert store.drain() == 0
        assert [summary.id for summary in store.sessions.list()] == ["s-2"]
        assert store.sessions.verify("s-2").head_seq == 3


def test_errors_come_through_and_threads_end(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(StoreMissingError):
        blocking.Store.open(tmp_path / "store", create=False)
    with blocking.Store.open(tmp_path / "store") as store:
        with pytest.raises(ObjectMissingError):
            store.read(Digest.of(b"never"))
        steps = store.sessions.read("absent")
        with pytest.raises(attachstore.AttachstoreError, match="absent"):
            next(steps)
    store.close()

    assert threading.active_count() == before
    with pytest.raises(ValueError, match="closed"):
        store.read(Digest.of(b"never"))


def test_a_generator_left_early_lets_go(tmp_path: Path) -> None:
    with blocking.Store.open(tmp_path / "store") as store:
        session = store.sessions.create("s-1")
        session.append_many([("e", number) for number in range(1000)])
        events = store.sessions.read("s-1")
        assert next(events).seq == 1
        events.close()


INTERRUPTED = """
import os, sys, threading
from pathlib import Path
from attachstore import blocking

class Endless:
    async def read(self, size):
        os.write(1, b"reading\\n")
        return b"x" * size

with blocking.Store.open(sys.argv[1]) as store:
    try:
        store.attach(Endless(), declared="text/plain")
    except KeyboardInterrupt:
        print("interrupted", list(Path(sys.argv[1], "staging").iterdir()))
    print(store.attach(b"still works").size)
"""


def test_ctrl_c_cancels_the_call_and_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "store")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == b"reading\n"
        process.send_signal(signal.SIGINT)
        lines = [line for line in output.read().decode().splitlines() if line != "reading"]

    assert process.wait() == 0
    assert lines == ["interrupted []", "11"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_is_told(tmp_path: Path) -> None:
    with blocking.Store.open(tmp_path / "store") as store:
        reference = store.attach(TEXT)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                store.read(reference)
            except ValueError as error:
                status = 0 if "os.fork" in str(error) else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def test_threads_that_close_one_store_share_the_outcome(tmp_path: Path) -> None:
    """Also with calls that came just before: each is answered, and nobody waits for ever."""
    before = threading.active_count()
    store = blocking.Store.open(tmp_path / "store")
    session = store.sessions.create("s-1")
    answers: list[object] = []

    def append() -> None:
        try:
            while True:
                answers.append(session.append("message", len(answers)).data)
        except ValueError as error:
            answers.append(str(error))

    def close() -> None:
        store.close()
        answers.append("done")

    threads = [threading.Thread(target=target) for target in (append, append, close, close)]
    for thread in threads[:2]:
        thread.start()
    while len(answers) < 5:
        time.sleep(0.001)
    for thread in threads[2:]:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert answers.count("done") == 2
    assert sum("closed" in str(answer) for answer in answers) == 2
    assert threading.active_count() == before
    with blocking.Store.open(tmp_path / "store") as again:
        events = [event.data for event in again.sessions.read("s-1")]
        assert sorted(events) == sorted(each for each in answers if isinstance(each, int))
        again.sessions.load("s-1")


def test_a_close_that_fails_fails_each_time_and_ends_all_the_same(tmp_path: Path) -> None:
    before = threading.active_count()
    disk = FailingDisk(methods={"sync_data"}, sticky=True)
    emit = attachstore.EmitPolicy(delay_s=3600)
    store = blocking.Store.open(tmp_path / "store", disk=disk, emit=emit)
    session = store.sessions.create("s-1")
    session.append("message", 0)
    reading = store.sessions.read("s-1")
    next(reading)
    session.emit("message", 1)
    disk.calls, disk.fail_at = 0, 1

    failures: list[StorageIOError] = []
    for _ in range(2):
        with pytest.raises(StorageIOError) as failure:
            store.close()
        failures.append(failure.value)

    assert failures[0] is failures[1]
    assert threading.active_count() == before
    with pytest.raises(ValueError, match="closed"):
        next(reading)
    with blocking.Store.open(tmp_path / "store") as again:
        new = again.sessions.load("s-1", close_turn=False)
        new.adopt(session)
        new.flush()
        assert [event.data for event in again.sessions.read("s-1")] == [0, 1]


def test_a_process_that_can_have_no_thread_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    before = open_descriptors()
    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(ResourceExhaustedError):
        blocking.Store.open(tmp_path / "store")

    assert open_descriptors() <= before
