"""Worker processes: what they answer, what they survive, and what they leave behind: nothing."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from PIL import Image

from attachstore.admission import AdmissionPolicy, admit, examine
from attachstore.admission.decoders import IN_PROCESS, Decoders
from attachstore.admission.media_type import DOCX
from attachstore.admission.pool import ProcessPool
from attachstore.admission.pool import _say_in_process as say_in_process
from attachstore.attachment import BytesContent
from attachstore.errors import AttachstoreError, DecoderFailedError
from attachstore.threads import CancelFlag, Cancelled
from tests.admission import documents
from tests.admission.pictures import DEFAULT_FORMATS, FURTHER_FORMATS, saved
from tests.admission.test_cases import CASES
from tests.descriptors import open_descriptors
from tests.waiting import wait_until

EVERY = AdmissionPolicy.any()
PNG = DEFAULT_FORMATS["png RGB (13, 11)"]()
CUT = (CASES / "017-png-bad-deflate-good-crc/a.png").read_bytes()


@pytest.fixture(scope="module")
def pool() -> Generator[ProcessPool]:
    pool = ProcessPool(processes_max=2)
    yield pool
    pool.close()


@pytest.fixture
def make_pool() -> Generator[Callable[..., ProcessPool]]:
    made: list[ProcessPool] = []

    def make(**settings: float) -> ProcessPool:
        made.append(ProcessPool(**settings))  # type: ignore[arg-type] - numbers of both kinds
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def outcome(data: bytes, decoders: Decoders, policy: AdmissionPolicy = EVERY) -> object:
    examination = examine(BytesContent(data), policy, decoders=decoders)
    findings = [str(finding) for finding in examination.findings]
    return examination.header, examination.frames, examination.pages, findings


def has_ended(pid: int) -> bool:
    """Gone, or a zombie that somebody else has to wait for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_worker_answers_as_this_process_would(pool: ProcessPool) -> None:
    """All reported files, all generated pictures: same header, counts, refusals and reasons."""
    inputs = [path.read_bytes() for path in sorted(CASES.glob("*/*")) if path.suffix != ".json"]
    inputs += [make() for make in {**DEFAULT_FORMATS, **FURTHER_FORMATS}.values()]
    inputs += [documents.pdf(3), documents.office(DOCX), b"\x7fELF\2\1\1" + bytes(60)]

    for data in inputs:
        assert outcome(data, pool) == outcome(data, IN_PROCESS)
        small = AdmissionPolicy(frames_pixels_max=20_000, frames_max=2)
        assert outcome(data, pool, small) == outcome(data, IN_PROCESS, small)


class FileContent(BytesContent):
    """Content that offers its descriptor, as spooled content does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.read_bytes())
        self._file = path.open("rb")

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


@pytest.mark.parametrize("size_bytes", [250_000, 300_000, 3_000_000])
def test_large_bytes_travel_as_a_descriptor(
    pool: ProcessPool, tmp_path: Path, size_bytes: int
) -> None:
    side = int(size_bytes**0.5)
    data = saved(Image.effect_noise((side, side), 90), "PNG", compress_level=0)
    (tmp_path / "picture").write_bytes(data)
    spooled = FileContent(tmp_path / "picture")
    admit(BytesContent(PNG), EVERY, decoders=pool)  # a worker, and its socket, is there now
    before = open_descriptors()

    for content in (BytesContent(data), spooled):
        attachment = admit(content, EVERY, decoders=pool)
        assert (attachment.header.width, attachment.frames) == (side, 1)

    assert open_descriptors() <= before
    spooled.close()


def test_a_worker_is_limited_and_out_of_reach_of_the_terminal(pool: ProcessPool) -> None:
    """It may write no file, and Ctrl-C, which goes to a session, is not for it."""
    admit(BytesContent(PNG), EVERY, decoders=pool)
    pid = pool.pids[0]

    limits = Path(f"/proc/{pid}/limits").read_text()

    assert os.getsid(pid) == pid
    assert "Max file size             0 " in limits
    assert "Max core file size        0 " in limits
    assert "Max address space         unlimited" not in limits


def test_too_much_memory_costs_one_attachment(make_pool: Callable[..., ProcessPool]) -> None:
    pool = make_pool(processes_max=1, memory_bytes_max=48 << 20)
    large = saved(Image.new("RGBA", (5000, 5000)), "PNG")

    with pytest.raises(DecoderFailedError, match="memory"):
        admit(BytesContent(large), EVERY, decoders=pool)
    assert admit(BytesContent(PNG), EVERY, decoders=pool).frames == 1


def test_too_much_processor_time_costs_one_attachment(
    make_pool: Callable[..., ProcessPool],
) -> None:
    pool = make_pool(processes_max=1, cpu_s_max=1)
    policy = AdmissionPolicy(frames_pixels_max=1 << 50, frames_max=100_000, pixels_max=1 << 40)
    frame = Image.new("P", (4000, 4000))
    film = saved(frame, "GIF")
    start = film.index(b",", 13)
    endless = film[:start] + film[start:-1] * 2000 + b";"

    with pytest.raises(DecoderFailedError, match="processor time"):
        admit(BytesContent(endless), policy, decoders=pool)
    assert admit(BytesContent(PNG), EVERY, decoders=pool).frames == 1


def test_a_worker_that_hangs_costs_one_attachment(make_pool: Callable[..., ProcessPool]) -> None:
    pool = make_pool(processes_max=1, wall_s_max=0.5)
    admit(BytesContent(PNG), EVERY, decoders=pool)
    (stopped,) = pool.pids
    os.kill(stopped, signal.SIGSTOP)

    with pytest.raises(DecoderFailedError, match="too long"):
        admit(BytesContent(PNG), EVERY, decoders=pool)
    assert has_ended(stopped)
    assert admit(BytesContent(PNG), EVERY, decoders=pool).frames == 1


def test_a_dead_worker_costs_nobody_anything(make_pool: Callable[..., ProcessPool]) -> None:
    """It was killed between two tasks, or by somebody else: the task is given to another."""
    pool = make_pool(processes_max=1)
    for how in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        assert admit(BytesContent(PNG), EVERY, decoders=pool).frames == 1
        os.kill(pool.pids[0], how)
    assert admit(BytesContent(PNG), EVERY, decoders=pool).frames == 1


def test_bytes_that_crash_every_worker_are_refused(make_pool: Callable[..., ProcessPool]) -> None:
    """Twice the same crash is no accident."""
    pool = make_pool(processes_max=1)
    admit(BytesContent(PNG), EVERY, decoders=pool)
    done = threading.Event()

    def crash() -> None:
        seen: set[int] = set()
        while not done.is_set():
            for pid in set(pool.pids) - seen:
                if has_started(pid):
                    os.kill(pid, signal.SIGSTOP)  # so that it cannot answer
                    time.sleep(0.2)
                    os.kill(pid, signal.SIGSEGV)
                    os.kill(pid, signal.SIGCONT)
                    seen.add(pid)
            time.sleep(0.005)

    os.kill(pool.pids[0], signal.SIGSTOP)
    first = pool.pids[0]
    crasher = threading.Thread(target=crash)
    try:
        crasher.start()
        with pytest.raises(DecoderFailedError, match="SIGSEGV"):
            admit_many(pool)
    finally:
        done.set()
        crasher.join()
    assert has_ended(first)
    assert admit(BytesContent(PNG), EVERY, decoders=pool).frames == 1


def admit_many(pool: ProcessPool) -> None:
    for _ in range(200):
        admit(BytesContent(PNG), EVERY, decoders=pool)


def has_started(pid: int) -> bool:
    """Whether the worker has started: it has left its own loading behind."""
    try:
        return (
            Path(f"/proc/{pid}/wchan").exists()
            and "Max file size             0 " in Path(f"/proc/{pid}/limits").read_text()
        )
    except OSError:
        return False


def kill_now_and_then(pool: ProcessPool, stop: threading.Event) -> None:
    source = random.Random(7)
    while not stop.wait(source.uniform(0.05, 0.5)):
        for pid in filter(has_started, pool.pids[:1]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def compare_outcomes(pool: ProcessPool, wrong: list[object]) -> None:
    expected = [outcome(data, IN_PROCESS) for data in (PNG, CUT)]
    deadline_s = time.monotonic() + 4
    while time.monotonic() < deadline_s:
        for data, right in zip((PNG, CUT), expected, strict=True):
            try:
                answer = outcome(data, pool)
            except AttachstoreError as error:
                answer = error
            if answer != right:
                wrong.append(answer)


def test_random_kills_change_no_outcome_and_leak_nothing(
    make_pool: Callable[..., ProcessPool],
) -> None:
    others = children()
    pool = make_pool(processes_max=2)
    before = open_descriptors()
    stop, wrong = threading.Event(), list[object]()
    threads = [threading.Thread(target=compare_outcomes, args=(pool, wrong)) for _ in range(3)]
    killer = threading.Thread(target=kill_now_and_then, args=(pool, stop))

    for thread in (*threads, killer):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    killer.join()

    assert wrong == []
    assert len(pool.pids) <= 2
    pool.close()
    assert open_descriptors() <= before
    assert children() == others


def children() -> set[str]:
    """Process ids, of zombies too."""
    found: set[str] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if text.rpartition(")")[2].split()[1] == str(os.getpid()):
            found.add(stat.parent.name)
    return found


def test_a_cancelled_task_ends_its_worker(make_pool: Callable[..., ProcessPool]) -> None:
    """A late answer must not become the answer to the next question."""
    pool = make_pool(processes_max=1)
    admit(BytesContent(PNG), EVERY, decoders=pool)
    (stopped,) = pool.pids
    os.kill(stopped, signal.SIGSTOP)
    cancel = CancelFlag()
    threading.Timer(0.2, cancel.set).start()

    with pytest.raises(Cancelled):
        admit(BytesContent(PNG), EVERY, decoders=pool, cancel=cancel)

    assert has_ended(stopped)
    assert admit(BytesContent(PNG), EVERY, decoders=pool).frames == 1


def test_more_threads_than_workers_take_turns(pool: ProcessPool) -> None:
    answers: list[int | None] = []

    def work() -> None:
        for _ in range(20):
            answers.append(admit(BytesContent(PNG), EVERY, decoders=pool).frames)  # noqa: PERF401

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [1] * 160
    assert len(pool.pids) <= 2


def test_a_closed_pool_refuses_work_and_has_no_workers() -> None:
    pool = ProcessPool(processes_max=1)
    admit(BytesContent(PNG), EVERY, decoders=pool)
    (pid,) = pool.pids

    pool.close()
    pool.close()

    assert has_ended(pid)
    with pytest.raises(ValueError, match="closed"):
        admit(BytesContent(PNG), EVERY, decoders=pool)


def run(script: str) -> list[str]:
    """In a process of its own, as a script without a main guard."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.stderr == ""
    return result.stdout.split()


PRELUDE = f"""
import os, sys, zlib, struct
from attachstore.admission import AdmissionPolicy, admit
from attachstore.admission.pool import ProcessPool
from attachstore.admission.pool import _say_in_process as say_in_process
from attachstore.attachment import BytesContent
print("main")
pool = ProcessPool(processes_max=1)
png = bytes.fromhex("{PNG.hex()}")
print(admit(BytesContent(png), AdmissionPolicy(), decoders=pool).frames, pool.pids[0], flush=True)
"""


def test_the_hosts_script_is_not_run_again_in_a_worker() -> None:
    """`multiprocessing` would: a script without a main guard dies of it."""
    assert run(PRELUDE).count("main") == 1


def test_workers_end_with_a_host_that_dies_without_a_word() -> None:
    output = run(PRELUDE + "os._exit(0)")

    wait_until(lambda: has_ended(int(output[-1])))


def test_a_host_that_forgets_to_close_leaves_no_worker() -> None:
    output = run(PRELUDE)

    wait_until(lambda: has_ended(int(output[-1])))


def test_after_a_fork_the_pool_is_the_parents() -> None:
    output = run(
        PRELUDE
        + textwrap.dedent("""
        pid = os.fork()
        if not pid:
            try:
                admit(BytesContent(png), AdmissionPolicy(), decoders=pool)
            except ValueError:
                print("refused", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        print(admit(BytesContent(png), AdmissionPolicy(), decoders=pool).frames, pool.pids[0])
        """)
    )

    assert output[3:] == ["refused", "1", output[2]]


@pytest.mark.parametrize("executable", ["", "/usr/sbin/uwsgi", "/nowhere/python3", "/bin/true"])
def test_without_a_python_to_start_everything_is_done_here(
    executable: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Embedded and frozen interpreters; said once, in the log."""
    monkeypatch.setattr(sys, "executable", executable)
    say_in_process.cache_clear()

    with caplog.at_level(logging.WARNING, "attachstore"):
        pool, other = ProcessPool(processes_max=1), ProcessPool(processes_max=1)
        assert admit(BytesContent(PNG), EVERY, decoders=other).frames == 1
        for _ in range(3):
            assert admit(BytesContent(PNG), EVERY, decoders=pool).frames == 1
        assert admit(BytesContent(documents.pdf(2)), EVERY, decoders=pool).pages == 2

    said = [record for record in caplog.records if "in this process" in record.message]
    assert len(said) == 1
    assert pool.pids == ()
    pool.close()
