"""A second user on the machine: what a store lets them do, and what they cannot do to it.

Run as root these tests become another user for real; elsewhere they look at modes only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attachstore import Digest, Store
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, StorageReadOnlyError
from attachstore.objects import staging
from attachstore.sessions import new_log
from tests.intercepted_disk import InterceptedDisk
from tests.objects.samples import PlainDisk

TEXT = b"an attachment\n"
LARGE = TEXT * 200_000
NOBODY = 65_534
UMASKS = [0o000, 0o002, 0o022, 0o027, 0o077]


@pytest.fixture
def home(reachable_path: Path) -> Path:
    """A folder that others may enter."""
    home = reachable_path / "home"
    home.mkdir()
    home.chmod(0o755)
    return home


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)

    def change(mask: int) -> None:
        os.umask(mask)

    yield change
    os.umask(before)


async def use(root: Path, disk: Disk | None = None) -> None:
    """Write in every way there is: objects, a healed one, logs, a torn tail, a fork, a seal."""
    async with Store.open(root, disk=disk, decode_in_process=True) as store:
        for content in (TEXT, LARGE):
            file = await store.attach(content, name="x.txt", declared="text/plain")
        bad = root / "objects" / "blake3" / Digest.of(TEXT).hex[:2] / Digest.of(TEXT).hex
        mode = stat.S_IMODE(bad.stat().st_mode)
        bad.chmod(0o600)
        bad.write_bytes(b"bad")
        bad.chmod(mode)
        assert (await store.put(TEXT, name="x.txt", declared="text/plain")).outcome == "healed"
        session = await store.sessions.create("s-1")
        await session.append("message", {"file": file})
        await session.close()
        with (root / "sessions" / "s-1" / "log.jsonl").open("ab") as log:
            log.write(b'{"torn')
        await (await store.sessions.load("s-1")).append("message", {"n": 2})
        await store.sessions.fork("s-1", id="s-2")
        await store.scan(quarantine=True)


def modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.lstat().st_mode)
        for path in (root, *sorted(root.rglob("*")))
    }


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
@pytest.mark.parametrize("kind", ["unnamed temporary files", "named ones"])
async def test_modes_honour_the_umask_and_nobody_else_ever_writes(
    home: Path, umask: Callable[[int], None], mask: int, kind: str
) -> None:
    """128: also with umask 0, and for what lies in torn/ and quarantine/."""
    umask(mask)

    await use(home / "store", PlainDisk() if kind == "named ones" else None)

    for name, mode in modes(home / "store").items():
        path = home / "store" / name
        wanted = 0o755 if path.is_dir() else 0o644
        if path.parent.parent.parent.name == "objects" or path.parent.name == "quarantine":
            wanted = 0o444
        assert mode == wanted & ~mask, name


@pytest.mark.parametrize("kind", ["unnamed temporary files", "named ones"])
async def test_at_no_moment_anything_may_be_written_by_others(
    home: Path, umask: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Nor is a mode changed later: what is never set wrong need not be put right."""
    umask(0)
    given: list[int] = []

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError

    class Watching(InterceptedDisk):
        def intercept(self, method: str, call: Callable[[], Any], arguments: Any) -> Any:
            if method in {"create", "open_temporary"}:
                given.append(arguments[1])
            return call()

    monkeypatch.setattr(os, "fchmod", refuse)

    await use(home / "store", Watching(PlainDisk() if kind == "named ones" else Disk()))

    assert given
    assert not any(mode & 0o022 for mode in (*given, *modes(home / "store").values()))


@pytest.mark.root
async def test_another_user_reads_and_writes_nothing(
    home: Path, umask: Callable[[int], None], another_user: Callable[[], None]
) -> None:
    umask(0o022)
    await use(home / "store")
    before = modes(home / "store")
    another_user()

    async with Store.open(home / "store", decode_in_process=True) as store:
        assert await store.read(Digest.of(TEXT)) == TEXT
        assert (await store.scan()).clean
        for refused in (
            store.attach(b"new", declared="text/plain"),
            store.attach(TEXT, declared="text/plain"),
            store.sessions.load("s-1"),
            store.sessions.delete("s-1"),
            store.sessions.repair("s-1"),
        ):
            with pytest.raises(StorageReadOnlyError):
                await refused

    assert modes(home / "store") == before


@pytest.mark.root
async def test_another_user_is_told_that_a_private_store_may_not_be_read(
    home: Path, umask: Callable[[int], None], another_user: Callable[[], None]
) -> None:
    umask(0o077)
    await use(home / "store")
    another_user()

    with pytest.raises(AttachstoreError) as caught:
        async with Store.open(home / "store", decode_in_process=True) as store:
            await store.read(Digest.of(TEXT))

    assert caught.value.code == "storage-read-only"
    assert "this user may not read it" in str(caught.value)
    assert "run as its owner" in str(caught.value)


@pytest.mark.root
async def test_another_user_is_told_which_log_may_not_be_read(
    home: Path, umask: Callable[[int], None], another_user: Callable[[], None]
) -> None:
    """And sees all others: in a listing, and in the tree."""
    umask(0o022)
    await use(home / "store")
    log = home / "store" / "sessions" / "s-2" / "log.jsonl"
    log.chmod(0o600)
    another_user()

    async with Store.open(home / "store", read_only=True, decode_in_process=True) as store:
        listed = {each.id: each.problem for each in await store.sessions.list()}
        grown = {each.summary.id: each.summary.problem for each in await store.sessions.tree()}
        with pytest.raises(StorageReadOnlyError) as caught:
            await store.sessions.inspect("s-2")

    assert (caught.value.where, caught.value.reading) == (str(log), True)
    for problems in (listed, grown):
        assert problems["s-1"] is None
        assert str(problems["s-2"]) == str(caught.value)


@pytest.mark.parametrize("planted", ["link", "file", "FIFO"])
async def test_a_name_that_somebody_guessed_is_not_opened(
    home: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """Where there are no unnamed files: whatever lies under the name is left, by O_EXCL.

    The staging directory is nobody else's to write; a store that was unpacked may hold anything.
    """
    (home / "precious").write_bytes(b"precious")
    async with Store.open(home / "store", decode_in_process=True):
        pass
    names = iter(["0" * 32, "0" * 16, *(f"{number:032x}" for number in range(1, 50))])

    def guessed(size_bytes: int) -> str:
        del size_bytes
        return next(names)

    for module in (staging, new_log):
        monkeypatch.setattr(module.secrets, "token_hex", guessed)
    path = home / "store" / "staging" / f"spool-{'0' * 32}"
    if planted == "link":
        path.symlink_to(home / "precious")
    elif planted == "file":
        path.write_bytes(b"planted")
    else:
        os.mkfifo(path)

    async with Store.open(home / "store", disk=PlainDisk(), decode_in_process=True) as store:
        with pytest.raises(AttachstoreError):
            await store.attach(TEXT, declared="text/plain")

    assert (home / "precious").read_bytes() == b"precious"
    assert path.lstat()
    if planted == "file":
        assert path.read_bytes() == b"planted"
