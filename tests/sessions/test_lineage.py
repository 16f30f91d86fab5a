"""Where sessions come from, by header and by chain."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk
from attachstore.errors import SessionMissingError, StorageIOError
from attachstore.sessions import SessionLogs
from attachstore.sessions.lineage import Branch, divergence, tree
from tests.conformance.session_medium import confirm, filled
from tests.sessions.places import JsonlPlace, MemoryPlace, SqlitePlace

Place = MemoryPlace | JsonlPlace | SqlitePlace


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind = str(request.param)
    if kind == "memory":
        return MemoryPlace()
    return JsonlPlace(tmp_path) if kind == "jsonl" else SqlitePlace(tmp_path)


@pytest.fixture
def logs(place: Place) -> Iterator[SessionLogs]:
    logs = SessionLogs(place.medium(), confirm)
    yield logs
    logs.close()


def fork(logs: SessionLogs, parent: str, at: int, id: str, *more: object) -> None:  # noqa: A002
    child = logs.fork(parent, at=at, id=id)
    for item in more:
        child.append("message", item)
    child.close()


def lose_header(place: Place, session_id: str) -> None:
    """As if the first block had been zeroed, up to the end of the header."""
    content = place.read(session_id)
    header = content.partition(b"\n")[0]
    place.write(session_id, b"\0" * len(header) + content[len(header) :])


def shown(branches: tuple[Branch, ...]) -> list[str]:
    """A line for each session: indented below its origin, with what that rests on."""
    lines: list[str] = []
    for root in branches:
        for depth, branch in root.walk():
            origin = branch.origin
            note = "" if origin is None else f" {origin.id}@{origin.seq} {origin.basis.value}"
            lines.append("  " * depth + branch.summary.id + note)
    return lines


def test_every_fork_stands_below_its_parent(logs: SessionLogs) -> None:
    filled(logs, "a", 1, 2, 3, 4, 5).close()
    fork(logs, "a", 4, "late")
    fork(logs, "a", 2, "early", "own")
    fork(logs, "early", 3, "grandchild", "more")
    fork(logs, "a", 2, "also-early")
    fork(logs, "a", 0, "from-the-start", "own")
    filled(logs, "z", 1).close()

    assert shown(tree(logs)) == [
        "a",
        "  from-the-start a@0 proven",
        "  also-early a@2 proven",
        "  early a@2 proven",
        "    grandchild early@3 proven",
        "  late a@4 proven",
        "z",
    ]


def test_forks_of_a_deleted_parent_are_roots_that_name_it(logs: SessionLogs) -> None:
    filled(logs, "a", 1, 2).close()
    fork(logs, "a", 1, "b", "own")
    fork(logs, "b", 2, "c")
    logs.delete("a")

    assert shown(tree(logs)) == ["b a@1 gone", "  c b@2 proven"]


def test_another_session_of_the_parents_name_is_not_the_parent(logs: SessionLogs) -> None:
    """Names are taken again. The chain is not."""
    filled(logs, "a", 1, 2).close()
    fork(logs, "a", 1, "b")
    logs.delete("a")
    filled(logs, "a", 1, 2).close()

    assert shown(tree(logs)) == ["a", "b a@1 gone"]


def test_a_parent_that_lost_the_fork_point_is_believed(logs: SessionLogs, place: Place) -> None:
    filled(logs, "a", 1, 2, 3).close()
    fork(logs, "a", 3, "b")
    lines = place.read("a").splitlines(keepends=True)
    place.write("a", b"".join(lines[:2]))

    assert shown(tree(logs)) == ["a", "  b a@3 claimed"]


def test_a_name_that_was_forked_back_makes_no_endless_tree(logs: SessionLogs) -> None:
    filled(logs, "b", 1, 2).close()
    fork(logs, "b", 2, "c")
    logs.delete("b")
    fork(logs, "c", 2, "b", "own")
    fork(logs, "c", 1, "a")

    lines = shown(tree(logs))

    assert sorted(line.split()[0] for line in lines) == ["a", "b", "c"]
    assert "  a c@1 proven" in [line[line.index("  a") :] for line in lines if "  a" in line]


def test_a_session_without_its_header_stands_where_its_history_says(
    logs: SessionLogs, place: Place
) -> None:
    filled(logs, "a", 1, 2, 3, 4).close()
    fork(logs, "a", 3, "b", "own", "more")
    fork(logs, "b", 4, "c", "deep")
    fork(logs, "a", 2, "d", "other")
    lose_header(place, "c")
    filled(logs, "stranger", 1).close()

    assert shown(tree(logs)) == [
        "a",
        "  d a@2 proven",
        "  b a@3 proven",
        "    c b@4 found",
        "stranger",
    ]


def test_a_parent_without_its_header_keeps_its_forks(logs: SessionLogs, place: Place) -> None:
    """It is not taken for a fork of its own fork."""
    filled(logs, "a", 1, 2, 3).close()
    fork(logs, "a", 2, "b", "own")
    lose_header(place, "a")

    assert shown(tree(logs)) == ["a", "  b a@2 proven"]


def test_if_all_headers_are_lost_the_chains_still_tell(logs: SessionLogs, place: Place) -> None:
    filled(logs, "a", 1, 2, 3).close()
    fork(logs, "a", 2, "b", "own")
    for name in ("a", "b"):
        lose_header(place, name)

    assert divergence(logs, "a", "b").seq == 2
    assert len(shown(tree(logs))) == 2


def test_many_generations_need_no_recursion(logs: SessionLogs) -> None:
    filled(logs, "g-0000", 1).close()
    for number in range(1, 60):
        fork(logs, f"g-{number - 1:04}", number, f"g-{number:04}", number)

    (root,) = tree(logs)

    assert [depth for depth, _ in root.walk()] == list(range(60))


# -- divergence --------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 2, 499, 998, 999, 1000])
def test_two_histories_part_where_their_chains_do(logs: SessionLogs, at: int) -> None:
    """A thousand events, so that halving has something to halve."""
    parent = logs.create("a")
    parent.append_many([("message", ["x" * 200, number]) for number in range(1000)])
    chains = {event.seq: event.chain for event in logs.events("a")}
    fork(logs, "a", at, "b", *range(30))

    for one, other in (("a", "b"), ("b", "a")):
        found = divergence(logs, one, other)
        assert (found.seq, found.chain) == (at, chains.get(at, "0" * 32))


def test_a_session_that_was_cut_back_is_a_part_of_the_other(logs: SessionLogs) -> None:
    filled(logs, "a", 1, 2, 3).close()
    fork(logs, "a", 2, "b")

    assert divergence(logs, "a", "b").seq == 2
    assert divergence(logs, "a", "a").seq == 3


def test_strangers_have_nothing_in_common(logs: SessionLogs) -> None:
    filled(logs, "a", 1, 2).close()
    filled(logs, "b", 1, 2).close()
    logs.create("new")

    assert divergence(logs, "a", "b").seq == 0
    assert divergence(logs, "a", "new").seq == 0
    with pytest.raises(SessionMissingError):
        divergence(logs, "a", "nobody")


def test_events_that_are_lost_on_one_side_do_not_hide_later_common_ones(
    logs: SessionLogs, place: Place
) -> None:
    filled(logs, "a", *range(9)).close()
    fork(logs, "a", 6, "b", "own")
    lines = place.read("a").splitlines(keepends=True)
    lines[3:5] = [b"garbage\n"]
    place.write("a", b"".join(lines))

    assert divergence(logs, "a", "b").seq == 6
    assert divergence(logs, "b", "a").seq == 6


@pytest.mark.parametrize("broken", ["a", "b"])
def test_a_log_that_fails_after_it_was_listed_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Its header is looked for, and others are compared with it."""
    place = JsonlPlace(tmp_path)
    logs = SessionLogs(place.medium(), confirm)
    for name in ("a", "b", "c"):
        filled(logs, name, 1).close()
    fork(logs, "a", 1, "d", 2)
    lose_header(place, "d")
    allow, listing = Disk.open_read, SessionLogs.list

    def fail(disk: Disk, path: Path) -> int:
        if path.parent.name == broken:
            raise OSError(errno.EIO, "failed")
        return allow(disk, path)

    def listed(self: SessionLogs, **options: Any) -> Any:
        found = listing(self, **options)
        monkeypatch.setattr(Disk, "open_read", fail)
        return found

    monkeypatch.setattr(SessionLogs, "list", listed)

    branches = tree(logs)

    everyone = [branch for root in branches for _, branch in root.walk()]
    assert sorted(branch.summary.id for branch in everyone) == ["a", "b", "c", "d"]
    for branch in everyone:
        is_broken = branch.summary.id == broken
        assert isinstance(branch.summary.problem, StorageIOError) == is_broken
    assert ("  d a@1 found" in shown(branches)) == (broken == "b")
