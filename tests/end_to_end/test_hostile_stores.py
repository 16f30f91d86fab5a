"""Hostile contents of a store: whatever lies where something of ours should be.

A store may come out of somebody's archive, or belong to another user. For every place of the
layout and every kind of thing that can lie there, every operation ends in a result or in one of
the package's own errors, at once, and nothing outside of the store is touched.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore import Digest, Store
from attachstore.errors import AttachstoreError, StoreLayoutError

KEPT, NEW = b"kept\n", b"new\n"
PRECIOUS = b"precious, and none of the store's business\n"
WAIT_S = 60
"""A hang, on the slowest machine: what a FIFO without this care would be."""


def name_of(data: bytes) -> str:
    digest = Digest.of(data).hex
    return f"objects/blake3/{digest[:2]}/{digest}"


COMMON = (
    "attachstore.json",
    "objects",
    "objects/blake3",
    str(Path(name_of(KEPT)).parent),
    str(Path(name_of(NEW)).parent),
    name_of(KEPT),
    name_of(NEW),
    "staging",
    f"staging/spool-{'0' * 32}",
    f"staging/heal-{Digest.of(KEPT).hex}-{'0' * 16}",
    "quarantine",
    f"quarantine/{Digest.of(KEPT).hex}-{'0' * 16}",
    "locks",
    "locks/s-1",
    "locks/s-new",
)
JSONL = (
    "sessions",
    "sessions/s-1",
    "sessions/s-1/log.jsonl",
    "sessions/s-1/log.jsonl.zst",
    "sessions/s-1/torn",
    "sessions/s-1/.new-0000000000000000",
    "sessions/s-new",
    "sessions/.deleted-0000000000000000",
)
SQLITE = ("sessions.db", "sessions.db-wal", "sessions.db-shm", "sessions.db-journal")
PLACES = [("jsonl", place) for place in (*COMMON, *JSONL)] + [("sqlite", place) for place in SQLITE]


def _device(path: Path, minor: int) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, minor))
    except PermissionError:
        pytest.skip("only root makes devices")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


THINGS: dict[str, Callable[[Path, Path], None]] = {
    "link to a folder": lambda path, outside: path.symlink_to(outside / "folder"),
    "link to a file": lambda path, outside: path.symlink_to(outside / "file"),
    "link to nothing": lambda path, outside: path.symlink_to(outside / "absent"),
    "link to itself": lambda path, _: path.symlink_to(path.name),
    "hard link": lambda path, outside: path.hardlink_to(outside / "file"),
    "FIFO": lambda path, _: os.mkfifo(path),
    "socket": lambda path, _: _socket(path),
    "/dev/null": lambda path, _: _device(path, 3),
    "/dev/zero": lambda path, _: _device(path, 5),
    "folder": lambda path, _: path.mkdir(),
    "empty file": lambda path, _: path.touch(),
}


async def _all(items: AsyncGenerator[Any]) -> None:
    async for _ in items:
        pass


async def _write(opening: Awaitable[Any]) -> None:
    session = await opening
    await session.append("message", {"n": 1})
    await session.close()


OPERATIONS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "read": lambda store: store.read(Digest.of(KEPT)),
    "stat": lambda store: store.stat(Digest.of(KEPT)),
    "list": lambda store: _all(store.list()),
    "sessions": lambda store: store.sessions.list(),
    "inspect": lambda store: store.sessions.inspect("s-1"),
    "events": lambda store: _all(store.sessions.read("s-1")),
    "replay": lambda store: _all(store.replay("s-1", lenient=True)),
    "uses": lambda store: _all(store.uses(Digest.of(KEPT))),
    "scan": lambda store: store.scan(),
    "duplicate": lambda store: store.attach(KEPT, declared="text/plain"),
    "attach": lambda store: store.attach(NEW, declared="text/plain"),
    "load": lambda store: _write(store.sessions.load("s-1")),
    "create": lambda store: _write(store.sessions.create("s-new")),
    "fork": lambda store: _write(store.sessions.fork("s-1", id="s-fork")),
    "repair": lambda store: store.sessions.repair("s-1"),
    "quarantine": lambda store: store.scan(quarantine=True),
    "drain": lambda store: store.drain(),
    "delete": lambda store: store.sessions.delete("s-1"),
}
"""In this order: those that change something come after those that do not."""


@pytest.fixture(scope="session")
def masters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A store for each medium, with a corrupt object and a torn tail, so that there is work."""
    masters: dict[str, Path] = {}
    for medium in ("jsonl", "sqlite"):
        root = masters[medium] = tmp_path_factory.mktemp("hostile") / medium
        asyncio.run(_make(root, medium))
        for shard in (root / "objects" / "blake3").iterdir():
            if not any(shard.iterdir()):
                shard.rmdir()  # 255 folders less to copy for each test; each is made when needed
    return masters


async def _make(root: Path, medium: str) -> None:
    async with Store.open(root, sessions=medium, decode_in_process=True) as store:
        kept = await store.attach(KEPT, declared="text/plain")
        session = await store.sessions.create("s-1")
        await session.append("message", {"file": kept})
    path = root / name_of(KEPT)
    path.chmod(0o644)
    path.write_bytes(b"bad")
    if medium == "jsonl":
        with (root / "sessions" / "s-1" / "log.jsonl").open("ab") as log:
            log.write(b'{"torn')


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    for file in (outside / "file", outside / "folder" / "file"):
        file.write_bytes(PRECIOUS)
    return outside


def facts(outside: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(outside.rglob("*"))
    }


async def outcomes(root: Path) -> dict[str, str]:
    """What becomes of every operation, each on the store opened anew."""
    found: dict[str, str] = {}
    for name, operation in OPERATIONS.items():
        try:
            async with (
                asyncio.timeout(WAIT_S),
                Store.open(root, decode_in_process=True) as store,
            ):
                await operation(store)
            found[name] = "done"
        except AttachstoreError as error:
            str(error)
            found[name] = error.code
    return found


def put(root: Path, place: str, thing: str, outside: Path) -> None:
    path = root / place
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    THINGS[thing](path, outside)


@pytest.mark.parametrize(("medium", "place"), PLACES)
@pytest.mark.parametrize("thing", THINGS)
async def test_whatever_lies_there_nothing_outside_is_touched(
    masters: dict[str, Path], tmp_path: Path, outside: Path, medium: str, place: str, thing: str
) -> None:
    """And no operation hangs or raises anything but the package's own errors."""
    root = tmp_path / "store"
    shutil.copytree(masters[medium], root, symlinks=True)
    put(root, place, thing, outside)
    before = facts(outside)

    found = await outcomes(root)

    assert facts(outside) == before
    assert set(found) == set(OPERATIONS)


@pytest.mark.parametrize(
    ("medium", "place", "operation"),
    [
        ("jsonl", "objects", "attach"),
        ("jsonl", str(Path(name_of(NEW)).parent), "attach"),
        ("jsonl", "staging", "attach"),
        ("jsonl", "quarantine", "duplicate"),
        ("jsonl", "sessions", "create"),
        ("jsonl", "sessions/s-1", "load"),
        ("jsonl", "sessions/s-1/torn", "load"),
        ("jsonl", "locks", "create"),
        ("sqlite", "sessions.db-wal", "create"),
    ],
)
async def test_a_link_in_the_place_of_a_directory_is_named(
    masters: dict[str, Path],
    tmp_path: Path,
    outside: Path,
    medium: str,
    place: str,
    operation: str,
) -> None:
    """Whoever reads the message can put it right."""
    root = tmp_path / "store"
    shutil.copytree(masters[medium], root, symlinks=True)
    put(root, place, "link to a folder", outside)

    with pytest.raises(StoreLayoutError) as caught:
        async with Store.open(root, decode_in_process=True) as store:
            await OPERATIONS[operation](store)

    assert str(root / place) in str(caught.value)


@pytest.mark.parametrize(
    ("medium", "place", "operation"),
    [
        ("jsonl", "locks/s-1", "load"),
        ("jsonl", "sessions/s-1/log.jsonl", "load"),
        ("sqlite", "sessions.db-wal", "create"),
    ],
)
async def test_a_file_with_another_name_is_not_written(
    masters: dict[str, Path],
    tmp_path: Path,
    outside: Path,
    medium: str,
    place: str,
    operation: str,
) -> None:
    """Even if it is a whole log: the other name may be a backup, or somebody else's session."""
    root = tmp_path / "store"
    shutil.copytree(masters[medium], root, symlinks=True)
    path = root / place
    if path.exists():
        shutil.copyfile(path, outside / "whole")
        path.unlink()
    else:
        (outside / "whole").write_bytes(PRECIOUS)
    path.hardlink_to(outside / "whole")
    before = facts(outside)

    with pytest.raises(StoreLayoutError, match="2 names"):
        async with Store.open(root, decode_in_process=True) as store:
            await OPERATIONS[operation](store)

    assert facts(outside) == before


# -- many, and strange, names ------------------------------------------------------------------


def strange_names() -> list[bytes]:
    """Every byte that a name can hold, alone and in what looks like one of ours."""
    bytes_ = [bytes([number]) for number in range(1, 256) if number != ord("/")]
    return [b"x" + it for it in bytes_] + [b"spool-" + it for it in bytes_]


@pytest.mark.parametrize("place", ["staging", "quarantine", "objects", "sessions", "sessions/s-1"])
async def test_names_with_every_byte_are_told_and_harm_nothing(
    masters: dict[str, Path], tmp_path: Path, place: str
) -> None:
    root = tmp_path / "store"
    shutil.copytree(masters["jsonl"], root, symlinks=True)
    for name in strange_names():
        Path(os.fsdecode(os.fsencode(root / place) + b"/" + name)).touch()

    async with Store.open(root, decode_in_process=True) as store:
        report = await store.scan()
        ids = [summary.id for summary in await store.sessions.list()]
        await store.attach(NEW, declared="text/plain")
        await store.drain()

    foreign = [note for note in report.notes if note.kind.value == "foreign-file"]
    assert len(foreign) >= len(strange_names()) - 70, "all but what may be a session's name"
    assert all(note.path is not None and note.path.isascii() for note in foreign)
    assert ids == ["s-1"]


async def test_a_hundred_thousand_stray_files_cost_one_listing_of_their_directory(
    masters: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attaching, reading and appending look at none of them; draining looks at each once."""
    root = tmp_path / "store"
    shutil.copytree(masters["jsonl"], root, symlinks=True)
    strays = 100_000
    directory = os.open(root / "staging", os.O_RDONLY)
    for number in range(strays):
        os.close(os.open(f"stray-{number}", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=directory))
    os.close(directory)
    calls = 0
    ask = os.stat

    def counting(*arguments: Any, **options: Any) -> os.stat_result:
        nonlocal calls
        calls += 1
        return ask(*arguments, **options)

    async with Store.open(root, decode_in_process=True) as store:
        monkeypatch.setattr(os, "stat", counting)
        await store.attach(NEW, declared="text/plain")
        await store.read(Digest.of(NEW))
        await OPERATIONS["load"](store)
        assert calls < 100
        assert await store.drain() == 0
        assert calls < 2 * strays
    monkeypatch.undo()
    assert sum(1 for _ in os.scandir(root / "staging")) == strays, "they are not ours to remove"
