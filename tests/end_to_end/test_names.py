"""Names that users' files really have, all the way: attached, logged, read back, exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attachstore import Reference, Store
from attachstore.errors import InvalidNameError
from tests.admission.test_cases import CASES

REPORTED: list[str] = [
    name
    for case in ("073-path-traversal", "076-nfc-nfd", "079-windows-reserved")
    for name in json.loads((CASES / case / "names.json").read_text("utf-8"))
]
FURTHER = [
    "a\0b",
    "\x1b[31mred",
    "\u202egnp.exe",
    "Screenshot 9.41\u202fAM.png",
    "x" * 1024,
    "\u2028",
]


async def test_a_name_is_the_same_after_the_log_and_a_safe_file_after_export(
    tmp_path: Path,
) -> None:
    """The log keeps the label code point for code point; only the export makes a path of it."""
    names = [*REPORTED, *FURTHER]
    async with Store.open(tmp_path / "store") as store:
        session = await store.sessions.create("s-1")
        for number, name in enumerate(names):
            reference = await store.attach(b"%d" % number, name=name)
            await session.append("attachment", {"file": reference})
        await session.close()

        read = [event.data["file"] async for event in store.sessions.read("s-1")]
        await store.export("s-1", tmp_path / "out")

    assert [one.name for one in read if isinstance(one, Reference)] == names
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {b"%d" % number for number in range(len(names))} <= {file.read_bytes() for file in files}
    assert not (tmp_path / "passwd").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"store", "out"}


@pytest.mark.parametrize("name", ["caf\udce9.png", "\ud800", "x" * 4096])
async def test_a_name_that_cannot_be_kept_is_refused_before_anything_is_stored(
    tmp_path: Path, name: str
) -> None:
    async with Store.open(tmp_path / "store") as store:
        with pytest.raises(InvalidNameError):
            await store.attach(b"bytes", name=name)
        assert [one async for one in store.list()] == []
