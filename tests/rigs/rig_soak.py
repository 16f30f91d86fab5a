"""Rig 13: eight processes on one store, killed at random moments.

They attach the same contents, write sessions of their own and shared ones, fork, delete, seal,
read and scan (soak_worker.py); every few milliseconds one of them is killed and another takes its
place, and now and then the medium damages an object. Their journals are put together by time and
the oracle judges the store: in the middle, while all are stopped for a moment, and at the end.

Sees: what needs many processes and a long time, locks that outlive their holder, leftovers that
pile up. Does not see what a power cut loses; and it repeats nothing, so a violation is a reason
to look for the interleaving elsewhere.

    python -m tests.rigs.rig_soak --seconds 3600 --folder DIRECTORY
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from attachstore import Digest
from attachstore.blocking import Store
from attachstore.errors import AttachstoreError
from tests.rigs import soak_worker
from tests.rigs.figures import Figures, Scale
from tests.rigs.journal import Record, read_journal
from tests.rigs.oracle import judge
from tests.rigs.workloads.objects import object_path

NAME = "soak: processes killed at random"
PROCESSES = 8
PAUSE_S = 0.02
"""Between the operations of one process, in the mean."""
_ROT_EVERY_S = 1.0

_COUNTED = (
    ("object", "attachments"),
    ("events", "appends"),
    ("fork", "forks"),
    ("deleted", "deletes"),
)

# What one process may be told because of what another does. All else is a violation.
_EXPECTED = {"session-busy", "session-exists", "session-missing", "object-missing", "log-poisoned"}


class Soak:
    """The processes, and what is killed when."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.root = folder / "store"
        self._journals = [folder / f"journal-{slot}" for slot in range(PROCESSES)]
        self._running: dict[int, int] = {}
        self._draw = random.Random(seed)
        self._lives = itertools.count()
        self.kills = 0
        self.damaged = 0
        self.ended: list[str] = []
        """Processes that did not wait to be killed."""

    def run(self, seconds: float) -> None:
        """Work and kill for so long; at the end everything is killed at once."""
        end_s = time.monotonic() + seconds
        next_rot_s = 0.0
        for slot in range(PROCESSES):
            self._start(slot)
        while time.monotonic() < end_s:
            time.sleep(self._draw.expovariate(1 / 0.06))
            self._kill(self._draw.randrange(PROCESSES))
            if time.monotonic() > next_rot_s:
                next_rot_s = time.monotonic() + _ROT_EVERY_S
                self._damage_one()
        for slot in range(PROCESSES):
            self._kill(slot, again=False)

    def _start(self, slot: int) -> None:
        life = next(self._lives)
        child = os.fork()
        if child == 0:
            try:
                soak_worker.work(self.root, self._journals[slot], slot, life, PAUSE_S)
            except BaseException:  # noqa: BLE001 - it has to be known why it did not go on
                traceback.print_exc()
            finally:
                os._exit(70)
        self._running[slot] = child

    def _kill(self, slot: int, *, again: bool = True) -> None:
        child = self._running.pop(slot)
        os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == -signal.SIGKILL:
            self.kills += 1
        else:
            self.ended.append(f"a process ended by itself, with {status}")
        if again:
            self._start(slot)

    def _damage_one(self) -> None:
        """Another byte in an object that nobody was promised."""
        data = soak_worker.rotting(self._draw.randrange(soak_worker.ROTTING))
        path = object_path(self.root, Digest.of(data))
        try:
            path.chmod(0o644)
            with path.open("r+b") as file:
                file.write(b"?")
            path.chmod(0o444)
        except FileNotFoundError:
            return
        self.damaged += 1

    def records(self) -> list[Record]:
        """Of all processes, in the order of time."""
        found = [record for journal in self._journals for record in read_journal(journal)]
        found.sort(key=lambda record: record.facts["when_ns"])
        rotting = [Digest.of(soak_worker.rotting(it)).hex for it in range(soak_worker.ROTTING)]
        for digest in rotting:
            found += [
                Record("given", "corrupt", {"digest": digest}),
                Record("attempt", "quarantined", {"digest": digest}),
            ]
        return found

    def judged(self) -> list[str]:
        """What the oracle says, and what processes were told that nobody should be told."""
        records = self.records()
        wrong = [*self.ended, *self._refusals(records)]
        wrong += [it.facts["what"] for it in records if it.kind == "finding"]
        wrong += [*judge(self.root, records), *self._mended()]
        return [f"{what} ({many} times)" for what, many in Counter(wrong).items()]

    def _refusals(self, records: list[Record]) -> list[str]:
        return [
            f"{record.kind} failed with {record.facts['error_code']}"
            for record in records
            if record.step == "failed" and record.facts["error_code"] not in _EXPECTED
        ]

    def _mended(self) -> list[str]:
        """What the medium damaged can be attached again, whatever state it is in."""
        wrong: list[str] = []
        with Store.open(self.root, decode_in_process=True) as store:
            for number in range(soak_worker.ROTTING):
                data = soak_worker.rotting(number)
                try:
                    if store.read(store.attach(data, declared="text/plain")) != data:
                        wrong.append(f"rotting {number} is served with other bytes")
                except AttachstoreError as error:
                    wrong.append(f"rotting {number} cannot be healed: {error!r}")
        return wrong


def soak(folder: Path, seconds: float, rests: int) -> dict[str, Any]:
    """Run for so long, judging `rests` times; what came of it."""
    with Store.open(folder / "store"):
        pass
    it = Soak(folder, seed=int(seconds))
    violations: list[str] = []
    for _ in range(rests):
        it.run(seconds / rests)
        violations += it.judged()
        print(f"{it.kills} kills, violations: {violations}", file=sys.stderr, flush=True)
    records = it.records()
    done = Counter(record.kind for record in records if record.step == "acknowledge")
    return {
        "kills": it.kills,
        "damaged": it.damaged,
        "violations": violations,
        "done": dict(done),
        "objects": sum(1 for _ in (folder / "store" / "objects").glob("*/*/*")),
        "sessions": sum(1 for _ in (folder / "store" / "sessions").iterdir()),
        "quarantined": sum(1 for _ in (folder / "store" / "quarantine").glob("*.json")),
    }


def run(scale: Scale, folder: Path | None = None) -> Figures:
    """In a process of its own, which forks the others."""
    seconds, rests = scale.pick(30, scale.soak_s), scale.pick(1, 6)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attachstore-soak-", dir=folder) as made:
        command = [sys.executable, "-m", "tests.rigs.rig_soak", "--folder", made]
        command += ["--seconds", str(seconds), "--rests", str(rests)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
    return figures(found, time.monotonic() - start)


def figures(found: dict[str, Any], seconds: float) -> Figures:
    done = found["done"]
    return Figures(
        rig=13,
        name=NAME,
        counted=found["kills"],
        unit="kills",
        violations=found["violations"],
        seconds=seconds,
        notes=(
            f"{PROCESSES} processes on one store",
            "acknowledged: " + ", ".join(f"{done.get(kind, 0)} {word}" for kind, word in _COUNTED),
            f"{found['damaged']} objects damaged by the medium, {found['quarantined']} moved aside",
        ),
        details=done,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.rig_soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--folder", type=Path, required=True, help="an empty directory")
    parser.add_argument("--rests", type=int, default=6, help="how often to judge")
    options = parser.parse_args()
    print(json.dumps(soak(options.folder, options.seconds, options.rests)))


if __name__ == "__main__":
    main()
