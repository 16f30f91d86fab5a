"""Fuzzing led by coverage: python -m tests.fuzz.guided --seconds 60

Three readers of bytes that anybody may have written: a session log, an event's data with its
references, and the header of a file. An input that reaches a line of the package that no input
before it reached joins the corpus, so the search works its way into the reader.

What must hold for every input: nothing but the package's own errors escapes; events come in
order; what was decoded is written and read back as the same.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import attachstore
from attachstore.admission.probe import probe
from attachstore.errors import AttachstoreError
from attachstore.sessions.data import BadDataError, decode, encode, from_wire, strict_json
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.memory import MemoryMedium
from attachstore.sessions.names import escape
from tests.fuzz.admission import seeds
from tests.fuzz.mutations import mutate
from tests.objects.samples import png, reference

PACKAGE = str(Path(attachstore.__file__).parent)
Target = Callable[[bytes], None]
_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "audio/mp4")


def read_log(data: bytes) -> None:
    """As a whole, and on beyond damage; then become its writer, if that may be."""
    medium = MemoryMedium()
    medium.logs[escape("s-1")] = bytearray(data)
    logs = SessionLogs(medium, lambda _: None)
    try:
        view = logs.inspect("s-1")
        seqs = [event.seq for event in logs.events("s-1", damaged="stop")]
        assert seqs == list(range(1, view.head_seq + 1)), seqs
        list(logs.events("s-1", damaged="resync"))
        head = logs.load("s-1").append("message", None).seq
        assert head > view.head_seq
    except AttachstoreError:
        assert bytes(medium.logs[escape("s-1")]) == data, "refused, and changed"


def decode_data(data: bytes) -> None:
    try:
        value = from_wire(strict_json(data))
    except (BadDataError, AttachstoreError):
        return
    try:
        again, _ = encode(value, where="fuzz")
    except AttachstoreError:  # what others wrote may be more than we write
        return
    assert decode(again) == value


def probe_header(data: bytes) -> None:
    for media_type in _TYPES:
        probe(data, media_type)


def log_seeds() -> list[bytes]:
    medium = MemoryMedium()
    logs = SessionLogs(medium, lambda _: None)
    log = logs.create("s-1", meta={"title": "t"}, cwd="/")
    log.append("turn/start", {"a": [1, reference()]})
    log.append_many([("message", "\u2028"), ("message", {"$attach": 1}), ("message", 0.5)])
    whole = bytes(medium.logs[escape("s-1")])
    return [whole, whole[:-20], whole + bytes(512), whole + b'{"seq":5,"time":"']


def data_seeds() -> list[bytes]:
    return [
        encode({"files": [reference(), {"$attach": {"$$attach": None}}]}, where="seed")[0],
        b'{"a":[1,-2.5e3,true,null,"\\u00e9"]}',
    ]


TARGETS: dict[str, tuple[Target, Callable[[], list[bytes]]]] = {
    "log": (read_log, log_seeds),
    "data": (decode_data, data_seeds),
    "header": (probe_header, lambda: [*seeds(), png(3, 2)]),
}


class Guided:
    """One search."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self._target, made = TARGETS[name]
        self._draw = random.Random(seed)
        self.corpus = made()
        self.reached: set[tuple[str, int]] = set()
        self.tried = 0
        for data in list(self.corpus):
            self.attempt(data)

    def step(self) -> None:
        """Try one more input. Raises whatever must not escape."""
        data = mutate(self._draw, self._draw.choice(self.corpus), self.corpus)
        if self.attempt(data):
            self.corpus.append(data)

    def attempt(self, data: bytes) -> bool:
        """Whether it reached a line that none before it reached."""
        self.tried += 1
        before = len(self.reached)
        sys.settrace(self._trace)
        try:
            self._target(data)
        except BaseException as error:
            sys.settrace(None)
            error.add_note(f"input: {data[:2000]!r}")
            raise
        finally:
            sys.settrace(None)
        return len(self.reached) > before

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.reached.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for each of the three readers")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("attachstore").setLevel(logging.CRITICAL)  # it warns of each cut tail
    for name in TARGETS:
        search = Guided(name, options.seed)
        end_s = time.monotonic() + options.seconds
        while time.monotonic() < end_s:
            search.step()
        print(f"{name}: {search.tried} inputs, {len(search.reached)} lines reached, no findings")


if __name__ == "__main__":
    main()
