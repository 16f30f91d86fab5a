"""Rig 10 at the scale of a test run, and that it would see what it looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attachstore.sessions.log_file import TORN
from attachstore.sessions.logs import SessionLogs
from tests.conformance.session_medium import confirm
from tests.rigs import rig_inputs
from tests.rigs.bit_flips import Target, flip_each, logs
from tests.rigs.figures import Scale
from tests.sessions.places import JsonlPlace


def test_no_bit_no_input_and_no_order_of_operations_breaks_a_promise() -> None:
    figures = rig_inputs.run(Scale(ci=True))

    assert figures.violations == []
    assert figures.details["log, raw: detected"] > 4_000
    assert "log, raw: harmless" not in figures.details
    assert figures.details["log, sealed: detected"] > 1_000
    assert figures.details["log, sqlite: harmless"] > 100


def test_a_flipped_last_newline_is_a_tail_whose_bytes_are_kept(tmp_path: Path) -> None:
    """The append looks as if it had never finished; nothing of it is thrown away."""
    for bit in range(8):
        place = JsonlPlace(_folder(tmp_path / str(bit)))
        written = SessionLogs(place.medium(), confirm)
        written.create("s-1").append_many([("message", "kept"), ("message", "flipped")])
        written.close()
        path = place.path("s-1")
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1 << bit]))

        logs_again = SessionLogs(place.medium(), confirm)
        assert logs_again.load("s-1").head == 1
        logs_again.close()

        (kept,) = (path.parent / TORN).iterdir()
        assert path.read_bytes() + kept.read_bytes()[:-1] == whole[:-1]


def test_a_reader_that_checks_nothing_is_found_out(tmp_path: Path) -> None:
    """The instrument must not pass because it compares nothing."""
    path = next(logs(tmp_path)).path

    def trusting() -> tuple[bool, Any]:
        return False, [path.read_bytes()]

    flips = flip_each(Target("trusting", path, trusting), step=97)

    assert flips.counted.total() == 0
    assert len(flips.violations) > 10


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
