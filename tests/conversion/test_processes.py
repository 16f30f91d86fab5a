"""Other processes write while a store is converted: no acknowledged event is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.conversion import ConversionProgress, ConversionStep, convert
from attachstore.disk import Disk
from attachstore.errors import SessionBusyError
from tests.conversion.scene import OTHER, contents, make_small, medium_in

WRITER = """
import os, sys, time
from pathlib import Path
from attachstore.disk import Disk
from attachstore.errors import SessionBusyError, StoreLayoutError
from attachstore.opening import medium_of
from attachstore.sessions import SessionLogs

root, kind, session = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
number = 0
while True:
    logs = SessionLogs(medium_of(kind, root, Disk()), lambda reference: None)
    try:
        log = logs.load(session) if number else logs.create(session)
        number = log.append("message", number).seq
        os.write(1, b"%d\\n" % number)
    except SessionBusyError:
        pass
    except StoreLayoutError as error:
        assert "open the store again" in str(error), error
        os.write(1, b"moved\\n")
        break
    finally:
        logs.close()
    time.sleep(0.05)  # a writer who never lets go would keep every converter out
"""


class Writer:
    """A process that appends one event after the other, opening the session for each."""

    def __init__(self, root: Path, kind: str, session: str) -> None:
        command = [sys.executable, "-c", WRITER, str(root), kind, session]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.acknowledged = 0
        self.moved = False
        self.began = threading.Event()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line == b"moved\n":
                    self.moved = True
                else:
                    self.acknowledged = int(line)
                    self.began.set()
        self.began.set()  # it never will

    def join(self) -> None:
        """Wait for its end, which it comes to by itself once it is told."""
        self._reading.join()
        self.process.wait()


@pytest.mark.parametrize("source", ["jsonl", "sqlite"])
def test_every_acknowledged_event_is_in_the_new_medium(tmp_path: Path, source: str) -> None:
    """Two writers at it; the conversion is tried until it finds nobody writing."""
    root = make_small(tmp_path / "store", source)
    writers = [Writer(root, source, f"w-{number}") for number in range(2)]
    try:
        for writer in writers:
            writer.began.wait()
        until(lambda: convert(Disk(), root, OTHER[source]).converted)
        for writer in writers:
            writer.join()
    finally:
        for writer in writers:
            writer.process.kill()
            writer.join()

    assert [writer.moved for writer in writers] == [True, True]
    found = contents(root)
    for number, writer in enumerate(writers):
        events = found[f"w-{number}"].events
        assert [event.data for event in events] == list(range(writer.acknowledged))
    assert medium_in(root) == OTHER[source]


def until(work: Callable[[], bool]) -> None:
    while True:
        try:
            assert work()
        except SessionBusyError:
            continue
        return


@pytest.mark.parametrize("source", ["jsonl", "sqlite"])
def test_a_writer_that_comes_meanwhile_is_refused(tmp_path: Path, source: str) -> None:
    """And told who is at it; it may write as soon as the conversion has failed or ended."""
    root = make_small(tmp_path / "store", source)
    told: list[str] = []

    def come(progress: ConversionProgress) -> None:
        if progress.step is not ConversionStep.COPYING or told:
            return
        script = (
            "import sys; from attachstore.blocking import Store\n"
            "from attachstore.errors import SessionBusyError\n"
            "with Store.open(sys.argv[1], decode_in_process=True) as store:\n"
            "    try: store.sessions.load('s-1')\n"
            "    except SessionBusyError as error: print(error)"
        )
        command = [sys.executable, "-c", script, str(root)]
        told.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    convert(Disk(), root, OTHER[source], progress=come)

    (said,) = told
    assert "which converts the store's sessions" in said
