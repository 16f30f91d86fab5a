"""Every single bit of stored files, flipped one at a time.

A flipped bit is *detected* (a typed error, or damage or an uncommitted tail in the report, with
the events before it as they were), *detected by a scan* (nothing else tells: the database hides
its last rows, and what is left is a valid shorter log) or *harmless* (everything that is read is
equal: bits of a database's free pages, of a frame's padding). Other bytes served without a word
are a violation.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, ObjectCorruptError
from attachstore.integrity.scan import scan
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import ObjectStore
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.sqlite import SqliteMedium
from tests.objects.samples import attachment, png
from tests.sessions.places import UnsyncedDisk

Read = Callable[[], tuple[bool, Any]]
"""Whether damage was told, and what was read."""


@dataclass(frozen=True)
class Target:
    """A file to flip bits of."""

    name: str
    path: Path
    read: Read
    has_fault: Callable[[], bool] = lambda: False
    """What a scan says, asked only if reading tells of nothing."""


@dataclass
class Flips:
    """What came of flipping."""

    counted: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])


def flip_each(target: Target, *, step: int = 1) -> Flips:
    """Flip every `step`-th bit of the file, reading after each; the file is as before then."""
    path, name, read = target.path, target.name, target.read
    whole = path.read_bytes()
    told, expected = read()
    assert not told, f"{name} is damaged before a bit is flipped"
    result = Flips()
    path.chmod(0o644)
    for bit in range(0, 8 * len(whole), step):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            told, found = read()
        except Exception as error:  # noqa: BLE001 - whatever is not the package's is a violation
            result.violations.append(f"{name}, bit {bit}: {error!r} escapes")
            continue
        if told and _is_prefix(found, expected):
            result.counted["detected"] += 1
        elif not told and found == expected:
            result.counted["harmless"] += 1
        elif _is_prefix(found, expected) and target.has_fault():
            result.counted["detected by a scan"] += 1
        else:
            result.violations.append(f"{name}, bit {bit}: {found!r} is served")
        if path.read_bytes() != bytes(flipped):
            result.violations.append(f"{name}, bit {bit}: reading changes the file")
    path.write_bytes(whole)
    return result


def objects(folder: Path) -> Iterator[Target]:
    """A small set of objects."""
    store = ObjectStore(FilesystemBackend.create(folder / "objects", UnsyncedDisk()))
    for name, data in (("text", b"a small text\n"), ("picture", png(3, 2)), ("byte", b"x")):
        digest = store.commit(attachment(data)).reference.digest
        path = folder / "objects" / "objects" / "blake3" / digest.hex[:2] / digest.hex

        def read(digest: Any = digest) -> tuple[bool, Any]:
            try:
                return False, [store.read(digest)]
            except ObjectCorruptError:
                return True, []

        yield Target(f"object, {name}", path, read)


def logs(folder: Path) -> Iterator[Target]:
    """One session, as lines, in frames, and in a database."""
    for name in ("raw", "sealed", "sqlite"):
        root = folder / name
        (root / "locks").mkdir(parents=True)
        (root / "sessions").mkdir()
        if name == "sqlite":
            SqliteMedium.create(root, UnsyncedDisk()).close()
        writer = SessionLogs(_medium(name, root, UnsyncedDisk()), lambda _: None)
        log = writer.create("s-1", cwd="/")
        log.append("message", {"text": "one"})
        log.append_many([("message", [1, 2.5, None]), ("turn/end", {})])
        log.close()
        if name == "sealed":
            writer.seal("s-1")
        writer.close()
        path = root / "sessions.db" if name == "sqlite" else root / "sessions" / "s-1" / "log.jsonl"
        path = path.with_name("log.jsonl.zst") if name == "sealed" else path
        yield Target(f"log, {name}", path, _reading(name, root), _scanning(name, root))


def _medium(name: str, root: Path, disk: Disk) -> Any:
    return SqliteMedium(root, disk) if name == "sqlite" else JsonlMedium(root, disk)


def _reading(name: str, root: Path) -> Read:
    """Everything that there is to read of the session, and whether damage was told."""

    def read() -> tuple[bool, Any]:
        found: list[Any] = []
        told = False
        reader = SessionLogs(_medium(name, root, Disk()), lambda _: None)
        try:
            view = reader.inspect("s-1")
            told = view.damage is not None or view.tail is not None
            found.append(view.header)
            told = told or any(summary.problem for summary in reader.list())
            told = told or any(reader.medium.strays())  # rows of a session that is not there
            events = reader.events("s-1", damaged="stop")
            found.extend((it.seq, it.time, it.type, it.data, it.chain) for it in events)
        except AttachstoreError:
            told = True
        finally:
            _close(reader, root)
        return told, found

    return read


def _scanning(name: str, root: Path) -> Callable[[], bool]:
    def has_fault() -> bool:
        reader = SessionLogs(_medium(name, root, Disk()), lambda _: None)
        try:
            return not scan(ObjectStore(MemoryBackend()), reader, workers=1).clean
        finally:
            _close(reader, root)

    return has_fault


def _close(reader: SessionLogs, root: Path) -> None:
    reader.close()
    for beside in ("sessions.db-wal", "sessions.db-shm"):
        (root / beside).unlink(missing_ok=True)


def _is_prefix(found: list[Any], expected: list[Any]) -> bool:
    return found == expected[: len(found)]


def flip_all(folder: Path, *, step: int, database_step: int) -> Flips:
    """Everything, in a folder of its own that is removed."""
    total = Flips()
    folder.mkdir()
    try:
        for target in [*objects(folder), *logs(folder)]:
            flips = flip_each(target, step=database_step if "sqlite" in target.name else step)
            total.violations += flips.violations
            for outcome, many in flips.counted.items():
                total.counted[f"{target.name}: {outcome}"] += many
    finally:
        shutil.rmtree(folder)
    return total
