"""Hostile bytes in files that we parse: attachstore.json, logs, references in logs.

Every operation ends in a result or in one of the package's own errors. That it does so at once is
not measured here: what would take long (depth, digits, repetition) is bounded by what is parsed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore import Digest, Store
from attachstore.digest import checksum
from attachstore.errors import AttachstoreError

TEXT = b"kept\n"
DIGEST = Digest.of(TEXT)


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    async with Store.open(root, decode_in_process=True) as store:
        kept = await store.attach(TEXT, declared="text/plain")
        session = await store.sessions.create("s-1")
        await session.append("message", {"file": kept})
        await session.append("message", {"n": 2})
    return root


# -- attachstore.json --------------------------------------------------------------------------


def marker(**changes: Any) -> bytes:
    fields = {"application": "attachstore", "format": 1, "id": "id", "created_at": "x"}
    return json.dumps({**fields, "sessions": "jsonl", **changes}).encode()


REFUSED = {
    "empty": (b"", "store-layout"),
    "deep": (b"[" * 60_000, "store-layout"),
    "deep object": (b'{"a":' * 12_000, "store-layout"),
    "digits": (b'{"application":"attachstore","format":' + b"1" * 6_000 + b"}", "store-layout"),
    "longer than is read": (marker(x="a" * 70_000), "store-layout"),
    "NULs": (bytes(100), "store-layout"),
    "not UTF-8": (b"\xff\xfe\xfd", "store-layout"),
    "a list": (b"[]", "store-foreign"),
    "NaN": (b'{"application": NaN}', "store-foreign"),
    "another key last": (marker()[:-1] + b',"application":"x"}', "store-foreign"),
    "true for 1": (marker(format=True), "store-version"),
    "1.0 for 1": (marker(format=1.0), "store-version"),
    "a newer format": (marker(format=2), "store-version"),
    "a format that is a path": (marker(format="../" * 10_000), "store-version"),
    "a medium that is a path": (marker(sessions="../../etc"), "store-layout"),
    "a medium that is a list": (marker(sessions=["jsonl"]), "store-layout"),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_hostile_marker_is_refused_and_kept(root: Path, kind: str) -> None:
    content, code = REFUSED[kind]
    (root / "attachstore.json").write_bytes(content)

    with pytest.raises(AttachstoreError) as caught:
        await Store.open(root)

    assert caught.value.code == code
    assert len(str(caught.value)) < 1_000
    assert (root / "attachstore.json").read_bytes() == content


@pytest.mark.parametrize("store_id", ["\ud800", "../../etc/passwd", "\x1b[2J\n", "x" * 50_000])
async def test_an_id_is_a_label_and_nothing_else(root: Path, tmp_path: Path, store_id: str) -> None:
    """A checkpoint's name is made of it."""
    (root / "attachstore.json").write_bytes(marker(id=store_id))

    async with Store.open(root, decode_in_process=True) as store:
        report = await store.scan(resume=tmp_path / "scan.json")

    assert report.clean
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


# -- logs --------------------------------------------------------------------------------------


def event(data: bytes, *, seq: bytes = b"2") -> bytes:
    return b'{"seq":' + seq + b',"time":"2026-01-01T00:00:00.000Z","type":"m","data":' + data


def reference(**changes: Any) -> bytes:
    fields = {"digest": str(DIGEST), "size": len(TEXT), "media_type": "text/plain"}
    return json.dumps({"$attach": {**fields, **changes}}).encode()


LINES = {
    "deep lists": event(b"[" * 50_000 + b"]" * 50_000),
    "deep objects": event(b'{"a":' * 30_000 + b"1" + b"}" * 30_000),
    "an unfinished depth": event(b"[" * 50_000),
    "many digits": event(b"1" * 100_000),
    "a large exponent": event(b"1e999999999"),
    "a small exponent": event(b"-1e-999999999"),
    "NaN": event(b"NaN"),
    "a lone surrogate": event(b'"\\ud800"'),
    "a long string": event(b'"' + b"x" * (2 << 20) + b'"'),
    "a key twice": b'{"seq":2,"seq":3,"time":"x","type":"m","data":{},"data":1',
    "data with a key twice": event(b'{"a":1,"a":2}'),
    "a seq of many digits": event(b"1", seq=b"9" * 5_000),
    "a seq that is a float": event(b"1", seq=b"2.0"),
    "a seq that is true": event(b"1", seq=b"true"),
    "a digest that is a path": event(reference(digest="blake3:../../../../etc/passwd")),
    "a digest of another kind": event(reference(digest=[])),
    "a size of many digits": event(reference(size=0)[:-2] + b',"size":' + b"9" * 400 + b"}}"),
    "a size below 0": event(reference(size=-1)),
    "a size that is true": event(reference(size=True)),
    "a type that never ends": event(reference(media_type="a/" * 50_000)),
    "a name that is a path": event(reference(name="../../x\0\ud800")),
    "dimensions that are none": event(reference(width=-1, height=0, frames=1e300)),
    "a reference that is a list": event(b'{"$attach":[]}'),
    "references in references": event(b'{"$attach":' * 500 + b"1" + b"}" * 500),
    "many references": event(b"[" + b",".join([reference()] * 5_000) + b"]"),
    "NULs": bytes(10_000),
    "carriage returns": b"\r" * 10_000,
}


async def _all(items: AsyncGenerator[Any]) -> None:
    async for _ in items:
        pass


OPERATIONS: dict[str, Callable[[Store, Path], Awaitable[Any]]] = {
    "list": lambda store, _: store.sessions.list(),
    "inspect": lambda store, _: store.sessions.inspect("s-1"),
    "read": lambda store, _: _all(store.sessions.read("s-1")),
    "resync": lambda store, _: _all(store.sessions.read("s-1", damaged="resync")),
    "replay": lambda store, _: _all(store.replay("s-1", lenient=True)),
    "uses": lambda store, _: _all(store.uses(DIGEST)),
    "scan": lambda store, _: store.scan(deep=True),
    "export": lambda store, out: store.export("s-1", out / "files"),
    "page": lambda store, out: store.write_page("s-1", out / "page.html"),
    "load": lambda store, _: store.sessions.load("s-1"),
    "fork": lambda store, _: store.sessions.fork("s-1", id="s-2"),
    "repair": lambda store, _: store.sessions.repair("s-1"),
}


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("place", ["in place of an event", "chained to its predecessor", "first"])
async def test_a_hostile_line_is_an_event_or_damage_to_every_operation(
    root: Path, tmp_path: Path, kind: str, place: str
) -> None:
    path = root / "sessions" / "s-1" / "log.jsonl"
    header, first, second, _ = path.read_bytes().split(b"\n")
    line = LINES[kind]
    if place == "chained to its predecessor":
        before = bytes.fromhex(json.loads(first)["chain"])
        line += b',"chain":"' + checksum(before, line).hex().encode() + b'"}'
    else:
        line += b',"chain":"' + b"0" * 32 + b'"}'
    lines = [line, first, second] if place == "first" else [header, first, line, second]
    path.write_bytes(b"\n".join(lines) + b"\n")
    out = tmp_path / "out"
    out.mkdir()
    beside = sorted(tmp_path.iterdir())

    longest = 0
    for operation in OPERATIONS.values():
        async with Store.open(root, decode_in_process=True) as store:
            try:
                await operation(store, out)
            except AttachstoreError as error:
                longest = max(longest, len(str(error)))
        shutil.rmtree(out)
        out.mkdir()

    assert longest < 2_000, "a message does not repeat what it complains of"
    assert sorted(tmp_path.iterdir()) == beside
