"""Stored: what lies in a store's directory, read without the code under test.

Written from docs/reference/formats.md alone, with json, sqlite3 and the libraries for BLAKE3 and
Zstandard.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from backports import zstd
from blake3 import blake3

_CHAIN_BYTES = 16
_SUFFIX_BYTES = len(',"chain":"') + 2 * _CHAIN_BYTES + len('"}')


@dataclass(frozen=True, slots=True)
class StoredEvent:
    seq: int
    mark: str
    chain: str
    references: tuple[str, ...]
    """Hex digests, wherever they are in its data."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The longest prefix of a log that is what it says."""

    events: tuple[StoredEvent, ...]
    content: bytes
    """All of it, also what follows the prefix."""
    proven_bytes: int


def objects(root: Path) -> Iterator[Path]:
    """Every file below objects/, whatever its name."""
    if not (root / "objects").is_dir():
        return iter(())
    return (Path(it.path) for it in _below(f"{root}/objects") if not it.is_dir())


def fault_of_object(path: Path) -> str:
    """Why a visible file is no object; "" if it is one."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        return f"{path.name} is no regular file"
    if status.st_mode & 0o222:
        return f"{path.name} may be written to (mode {status.st_mode & 0o777:o})"
    if path.parent.name != path.name[:2]:
        return f"{path.name} is in {path.parent.name}"
    if blake3(path.read_bytes()).hexdigest() != path.name:
        return f"{path.name} holds other bytes"
    return ""


def log_of(root: Path, session_id: str) -> StoredLog | None:
    """A session's log, in the medium that the store names: a file, plain or sealed, or a row."""
    marker = root / "attachstore.json"
    if marker.exists() and json.loads(marker.read_bytes())["sessions"] == "sqlite":
        content = _content_in_database(root, session_id)
        return None if content is None else parse(content)
    folder = root / "sessions" / session_id
    if (folder / "log.jsonl").exists():
        return parse((folder / "log.jsonl").read_bytes())
    if (folder / "log.jsonl.zst").exists():
        return parse(unpacked((folder / "log.jsonl.zst").read_bytes()))
    return None


def unpacked(frames: bytes) -> bytes:
    """What is in Zstandard frames, one after the other, as far as they go."""
    content = b""
    while len(frames) > 8:
        if frames[1:4] == b"\x2a\x4d\x18":  # a skippable frame: RFC 8878, 3.1.2
            frames = frames[8 + int.from_bytes(frames[4:8], "little") :]
            continue
        frame = zstd.ZstdDecompressor()
        try:
            content += frame.decompress(frames)
        except zstd.ZstdError:
            return content + frames  # no line that anything proves
        if not frame.eof:
            break
        frames = frame.unused_data
    return content


def parse(content: bytes) -> StoredLog:
    """The header, then events as far as `seq` and chain go."""
    events: list[StoredEvent] = []
    chain = bytes(_CHAIN_BYTES)
    header_bytes = content.find(b"\n") + 1
    if not header_bytes or not _is_header(content[: header_bytes - 1]):
        return StoredLog((), content, 0)
    proven_bytes = header_bytes
    for line in content[header_bytes:].split(b"\n")[:-1]:
        body = line[:-_SUFFIX_BYTES]
        chain = blake3(chain + body).digest()[:_CHAIN_BYTES]
        if line[len(body) :] != b',"chain":"%b"}' % chain.hex().encode():
            break
        record: dict[str, Any] = json.loads(line)
        if record["seq"] != len(events) + 1:
            break
        data = record["data"]
        mark = str(cast("dict[str, Any]", data)["mark"])
        events.append(StoredEvent(record["seq"], mark, chain.hex(), tuple(_references(data))))
        proven_bytes += len(line) + 1
    return StoredLog(tuple(events), content, proven_bytes)


def kept_pieces(root: Path, session_id: str) -> list[bytes]:
    """What was ever cut off a log."""
    folder = root / "sessions" / session_id / "torn"
    pieces = [path.read_bytes() for path in sorted(folder.glob("*"))] if folder.is_dir() else []
    for _, content in _cut_in_database(root, session_id):
        pieces.append(content)
    return pieces


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below `root` with its mode and bytes, but for what only the living need:
    locks, and what SQLite keeps beside its database while it is open."""
    found: dict[str, tuple[int, bytes]] = {}
    first = len(f"{root}/")
    for entry in _below(str(root)):
        shown = entry.path[first:]
        if not shown.startswith("locks/") and not shown.endswith(("-wal", "-shm")):
            is_file = entry.is_file(follow_symlinks=False)
            mode = entry.stat(follow_symlinks=False).st_mode
            found[shown] = (mode, Path(entry.path).read_bytes() if is_file else b"")
    return found


def _below(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path)


def _is_header(line: bytes) -> bool:
    body, _, check = line.rpartition(b',"check":"')
    return check == blake3(body).hexdigest()[:32].encode() + b'"}'


def _references(data: object) -> Iterator[str]:
    if isinstance(data, dict):
        fields = cast("dict[str, Any]", data)
        if fields.keys() == {"$attach"}:
            yield str(fields["$attach"]["digest"]).removeprefix("blake3:")
            return
        for value in fields.values():
            yield from _references(value)
    elif isinstance(data, list):
        for value in cast("list[Any]", data):
            yield from _references(value)


def _content_in_database(root: Path, session_id: str) -> bytes | None:
    found = list(
        _rows(
            root,
            "SELECT number FROM session WHERE segment = ?",
            session_id,
        )
    )
    if not found:
        return None
    lines = _rows(
        root,
        "SELECT bytes FROM line WHERE session = "
        "(SELECT number FROM session WHERE segment = ?) ORDER BY offset_bytes",
        session_id,
    )
    return b"".join(content for (content,) in lines)


def _cut_in_database(root: Path, session_id: str) -> list[tuple[int, bytes]]:
    """Each cut's pieces, put together."""
    rows = _rows(
        root,
        "SELECT revision, bytes FROM torn WHERE session = "
        "(SELECT number FROM session WHERE segment = ?) ORDER BY revision, offset_bytes",
        session_id,
    )
    cuts: dict[int, bytes] = {}
    for revision, content in rows:
        cuts[revision] = cuts.get(revision, b"") + content
    return list(cuts.items())


def _rows(root: Path, query: str, session_id: str) -> list[tuple[Any, ...]]:
    path = root / "sessions.db"
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute(query, (session_id,)).fetchall()
