"""Fuzzing of the whole admission path: python -m tests.fuzz.admission --seconds 3600

Mutates a seed corpus (tests/fuzz/corpus and tests/cases). An input whose outcome has not been
seen before (type, error code, reason without its numbers) joins the corpus, so the search follows
what the code says about its inputs.

What must hold for every input:

 (1) Admission gives an Attachment or an AdmissionError; nothing else escapes.
 (2) What was admitted agrees with its own probe: a read can never call it a mismatch.
 (3) `examine` finds something if and only if `admit` refuses.
 (4) It ends within SECONDS_MAX and MEMORY_BYTES_MAX, and the process survives.

Workers are processes of their own and write each input down before they try it, so that one that
kills its process is known.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from attachstore.admission import AdmissionPolicy, admit, examine
from attachstore.admission.probe import differences, probe
from attachstore.attachment import Attachment, BytesContent
from attachstore.errors import AdmissionError
from attachstore.reference import Reference
from tests.fuzz.mutations import mutate

HERE = Path(__file__).parent
SECONDS_MAX = 20
MEMORY_BYTES_MAX = 3 << 30
CORPUS_MAX = 5000
_NUMBERS = re.compile(r"\d+")

# Small limits reach every check; the wide one lets every decoder have its turn.
POLICIES = (
    AdmissionPolicy(),
    AdmissionPolicy.any(),
    AdmissionPolicy(bytes_max=4096, pixels_max=2000, side_max=60, frames_max=3),
)
CLAIMS = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "text/plain",
    "application/json",
    "application/zip",
    "audio/mpeg",
)
CLAIMED_SHARE = 0.2  # a claim mostly ends the matter at once


class BrokenPromiseError(Exception):
    """Something that must hold for every input does not."""


def attempt(data: bytes, policy: AdmissionPolicy, declared: str | None) -> str:
    """Admit `data`; return what the outcome was like. Raises whatever must not escape."""
    content = BytesContent(data)
    try:
        attachment = admit(content, policy, declared=declared)
    except AdmissionError as error:
        str(error)
        if examine(content, policy, declared=declared).admissible:
            message = f"examine finds nothing, admit says {error.code}"
            raise BrokenPromiseError(message) from error
        reason = str(error.details().get("reason", ""))
        kind = str(error.details().get("media_type", ""))
        return f"{error.code} {kind} {_NUMBERS.sub('#', reason)}"
    _check(attachment, data)
    if not examine(content, policy, declared=declared).admissible:
        message = "admit admits, examine finds something"
        raise BrokenPromiseError(message)
    frames = min(attachment.frames or 0, 3)
    return f"admitted {attachment.header.media_type} {frames} {min(attachment.pages or 0, 2)}"


def _check(attachment: Attachment, data: bytes) -> None:
    header = attachment.header
    reference = Reference(
        digest=attachment.content.digest,
        size=len(data),
        media_type=header.media_type,
        width=header.width,
        height=header.height,
        frames=attachment.frames,
        pages=attachment.pages,
    )
    found = differences(reference, len(data), probe(data, header.media_type))
    if found:
        message = f"admitted, and its own probe disagrees: {found}"
        raise BrokenPromiseError(message)


def seeds() -> list[bytes]:
    """The committed corpus and the inputs of the cases."""
    folders = (HERE / "corpus", HERE.parent / "cases")
    paths = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [data for path in paths if len(data := path.read_bytes()) <= 64 << 10]


@dataclass
class Fuzzer:
    """One worker's search."""

    draw: random.Random
    corpus: list[bytes] = field(default_factory=seeds)
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter[str])
    tried: int = 0

    def step(self) -> None:
        """Try one input. Raises whatever must not escape."""
        data, policy, declared = self.next_input()
        self.try_input(data, policy, declared)

    def next_input(self) -> tuple[bytes, AdmissionPolicy, str | None]:
        data = mutate(self.draw, self.draw.choice(self.corpus), self.corpus)
        declared = self.draw.choice(CLAIMS) if self.draw.random() < CLAIMED_SHARE else None
        return data, self.draw.choice(POLICIES), declared

    def try_input(self, data: bytes, policy: AdmissionPolicy, declared: str | None) -> None:
        self.tried += 1
        outcome = attempt(data, policy, declared)
        if outcome not in self.outcomes and len(self.corpus) < CORPUS_MAX:
            self.corpus.append(data)
        self.outcomes[outcome] += 1


def _worker(folder: Path, seed: int, seconds: float) -> None:
    """Run until the time is up, going on after each finding; ends the process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    fuzzer = Fuzzer(random.Random(seed))
    current = folder / f"current-{seed}"
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        data, policy, declared = fuzzer.next_input()
        current.write_bytes(data)
        signal.alarm(SECONDS_MAX)  # SIGALRM ends the process; the parent keeps `current`
        try:
            fuzzer.try_input(data, policy, declared)
        except BaseException:  # noqa: BLE001 - anything that escapes is what we look for
            name = f"finding-{seed}-{fuzzer.tried}"
            (folder / name).write_bytes(data)
            note = f"policy {POLICIES.index(policy)}, declared {declared}\n{traceback.format_exc()}"
            (folder / f"{name}.txt").write_text(note)
        signal.alarm(0)
    # Escaped: a library's words in an outcome may hold a line feed.
    ranked = fuzzer.outcomes.most_common()
    rows = "".join(f"{count}\t{ascii(outcome)[1:-1]}\n" for outcome, count in ranked)
    (folder / f"outcomes-{seed}").write_text(f"{fuzzer.tried}\ttried\n{rows}")
    current.unlink()


def run(folder: Path, seconds: float, workers: int, seed: int) -> tuple[int, int]:
    """Fuzz with several processes; returns (inputs tried, findings). Findings are in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    end_s = time.monotonic() + seconds
    running: dict[int, int] = {}
    while time.monotonic() < end_s or running:
        while len(running) < workers and (left_s := end_s - time.monotonic()) > 0:
            seed += 1
            child = os.fork()
            if child == 0:
                # Short lives: a leak shows in the memory limit, a crash costs little.
                _worker(folder, seed, min(left_s, 600))
                os._exit(0)
            running[child] = seed
        child, status = os.wait()
        ended = running.pop(child)
        current = folder / f"current-{ended}"
        if status and current.exists():
            current.rename(folder / f"finding-{ended}-died-{os.waitstatus_to_exitcode(status)}")
    tried = sum(int(path.read_text().split("\t", 1)[0]) for path in folder.glob("outcomes-*"))
    findings = [path for path in folder.glob("finding-*") if path.suffix != ".txt"]
    return tried, len(findings)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz admission; findings go into FOLDER.")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"))
    options = parser.parse_args()
    tried, findings = run(options.folder, options.seconds, options.workers, options.seed)
    outcomes = collections.Counter[str]()
    for path in options.folder.glob("outcomes-*"):
        for line in path.read_text().splitlines()[1:]:
            count, _, outcome = line.partition("\t")
            outcomes[outcome] += int(count)
    print(f"{tried} inputs tried, {len(outcomes)} different outcomes, {findings} findings")
    for outcome, count in outcomes.most_common(20):
        print(f"  {count:>9}  {outcome}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
