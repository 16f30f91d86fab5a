"""Many attachments through the pool while its workers are killed at random.

1 000 by default; ATTACHSTORE_TEST_POOL=100000 is the full run (docs/contributing.md), which prints
what it measured (pytest -s).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image

from attachstore.admission import AdmissionPolicy, examine
from attachstore.admission.decoders import IN_PROCESS, Decoders
from attachstore.admission.pool import ProcessPool
from attachstore.attachment import BytesContent
from attachstore.errors import AttachstoreError
from tests.admission import documents
from tests.admission.pictures import DEFAULT_FORMATS, FURTHER_FORMATS, saved
from tests.descriptors import open_descriptors

ATTACHMENTS = int(os.environ.get("ATTACHSTORE_TEST_POOL", "1000"))
THREADS = 3
GROWTH_MAX_MIB = 48
EVERY = AdmissionPolicy.any()


def inputs() -> list[bytes]:
    """Whole and damaged, small and as a descriptor, for each of the decoders."""
    names = ("png RGB (13, 11)", "jpeg progressive", "gif animated", "webp RGB")
    pictures = [DEFAULT_FORMATS[name]() for name in names] + [FURTHER_FORMATS["heic"]()]
    large = saved(Image.effect_noise((560, 560), 90), "PNG", compress_level=0)
    damaged = [picture[:-20] + bytes(20) for picture in pictures]
    return [*pictures, *damaged, documents.pdf(2), documents.pdf(2)[:-80], large]


def outcome(data: bytes, decoders: Decoders) -> object:
    try:
        found = examine(BytesContent(data), EVERY, decoders=decoders)
    except AttachstoreError as error:  # a worker's death must not become the attachment's
        return error
    return found.header, found.frames, found.pages, [str(finding) for finding in found.findings]


def kill_at_random(pool: ProcessPool, stop: threading.Event, killed: list[int]) -> None:
    source = random.Random(7)
    while not stop.wait(source.uniform(0.2, 2)):
        for pid in pool.pids[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)


def put_through(
    pool: ProcessPool,
    numbers: Iterator[int],
    cases: Sequence[tuple[bytes, object]],
    wrong: list[object],
) -> None:
    for number in numbers:
        data, right = cases[number % len(cases)]
        answer = outcome(data, pool)
        if answer != right:
            wrong.append(answer)


def memory_mib(pid: int | str = "self") -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # killed meanwhile
        return 0
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024 if "VmRSS:" in status else 0


def children() -> set[str]:
    """Process ids, of zombies too."""
    listed = Path("/proc/self/task").glob("*/children")
    return {pid for path in listed for pid in path.read_text().split()}


def test_random_kills_over_many_attachments_change_no_outcome_and_leak_nothing() -> None:
    cases = [(data, outcome(data, IN_PROCESS)) for data in inputs()]
    pool = ProcessPool(processes_max=2)
    others, stop = children(), threading.Event()
    wrong, killed = list[object](), list[int]()
    put_through(pool, iter(range(10 * len(cases))), cases, wrong)  # everything is loaded
    memory_before, descriptors_before = memory_mib(), open_descriptors()
    # One iterator for all: each thread takes the next number.
    numbers = iter(range(ATTACHMENTS))
    threads = [
        threading.Thread(target=put_through, args=(pool, numbers, cases, wrong))
        for _ in range(THREADS)
    ]
    killer = threading.Thread(target=kill_at_random, args=(pool, stop, killed))

    began_s = time.monotonic()
    for thread in (*threads, killer):
        thread.start()
    worker_mib = 0
    while any(thread.is_alive() for thread in threads):
        worker_mib = max([worker_mib, *map(memory_mib, pool.pids)])
        assert len(pool.pids) <= 2
        time.sleep(0.2)
    stop.set()
    killer.join()

    grown_mib, open_now = memory_mib() - memory_before, open_descriptors()
    pool.close()
    print(
        f"{ATTACHMENTS} attachments in {time.monotonic() - began_s:.0f} s, {len(killed)} kills,"
        f" {len(wrong)} wrong; host {memory_before} MiB {grown_mib:+d} MiB, descriptors"
        f" {descriptors_before} -> {open_now}, largest worker {worker_mib} MiB"
    )
    assert wrong == []
    assert open_now <= descriptors_before + 2  # a worker that was dead then has a socket now
    assert open_descriptors() <= descriptors_before
    assert children() <= others
    assert grown_mib < GROWTH_MAX_MIB
    assert worker_mib < 256
