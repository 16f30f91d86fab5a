"""Nothing heavy is imported before it is needed: what each command loads, and nothing else.

The modules stand for the time that a command takes to begin, which no test could measure. A
command that loads more than its row says makes everybody wait; one that loads less has become
better, and its row is to say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from attachstore.digest import Digest
from tests.cli.conftest import picture
from tests.cli.test_help import COMMANDS

WATCHED = {
    "PIL": "pictures",
    "attachstore_private_pillow": "pictures",
    "pikepdf": "documents",
    "tinytag": "tags",
    "magic": "libmagic",
    "xml": "xml",
    "sqlite3": "sqlite",
    "backports.zstd": "zstd",
    "aiofiles": "aiofiles",
    "rich": "rich",
    "tomllib": "toml",
    "http": "http",
    "email": "email",
    "multiprocessing": "multiprocessing",
    "concurrent.futures.process": "multiprocessing",
    "attachstore.replay": "replay",
    "attachstore.replay.page": "pages",
    "attachstore.integrity": "integrity",
    "attachstore.conversion": "conversion",
    "attachstore.store": "store",
    "attachstore.sessions": "sessions",
    "attachstore.objects": "objects",
    "attachstore.admission": "admission",
    "asyncio": "asyncio",
    "blake3": "blake3",
    "msgspec": "msgspec",
}
"""Module to what the table calls it."""

CORE = {"asyncio", "blake3", "msgspec"}
STORE = CORE | {"store", "sessions", "objects", "admission"}
"""What any command on a store needs."""
ZSTD = {"zstd"} if sys.version_info < (3, 14) else set[str]()
"""Since 3.14 it is a part of Python, which loads it for other things too."""


@dataclass(frozen=True)
class Row:
    command: str
    arguments: str
    """NOTE and PHOTO stand for files, DIGEST for the stored note, SQL for the other store."""
    loaded: set[str]
    stdin: bytes = b""


TABLE = [
    Row("init", "--store new init", STORE),
    Row("init", "--store new init --sessions sqlite", STORE | {"sqlite"}),
    Row("put", "put NOTE", STORE),
    Row("put", "put NOTE --session s-1", STORE),
    Row("put", "put PHOTO", STORE | {"pictures"}),
    Row("check", "check NOTE", CORE | {"admission"}),
    Row("check", "check PHOTO", CORE | {"admission", "pictures"}),
    Row("get", "get DIGEST", STORE),
    Row("stat", "stat DIGEST", STORE),
    Row("stat", "stat", STORE),
    Row("ls", "ls", STORE),
    Row("session list", "session list", STORE),
    Row("session list", "SQL session list", STORE | {"sqlite"}),
    Row("session show", "session show s-1", STORE),
    Row("session tree", "session tree", STORE),
    Row("session append", "session append s-1", STORE, stdin=b"{}"),
    Row("session fork", "session fork s-1 --id s-2", STORE),
    Row("session delete", "session delete s-1 --yes", STORE),
    Row("session verify", "session verify s-1", STORE),
    Row("session repair", "session repair s-1", STORE),
    Row("session seal", "session seal s-1", STORE | ZSTD),
    Row("session unseal", "session unseal s-1", STORE),
    Row(
        "session convert",
        "session convert sqlite",
        STORE - {"store", "admission"} | {"conversion", "sqlite"},
    ),
    Row("replay", "replay s-1", STORE | {"replay"}),
    Row("replay", "replay s-1 --export out", STORE | {"replay"}),
    Row("replay", "replay s-1 --html page.html", STORE | {"replay", "pages", "pictures"}),
    Row("scan", "scan", STORE | {"integrity"}),
    Row("scan", "scan --deep", STORE | {"integrity"}),
    Row("scan", "SQL scan", STORE | {"integrity", "sqlite"}),
    Row("demo", "demo", STORE | {"replay", "pages", "integrity", "pictures", "documents"}),
    Row("completion", "completion bash", set()),
]

PROGRAM = """
import atexit, os, sys

def tell():
    with open(os.environ["LOADED"], "w") as file:
        file.write("\\n".join(sys.modules))

atexit.register(tell)
from attachstore.cli.entry import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two stores and files to attach."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "note.txt").write_bytes(b"to do: nothing\n")
    (folder / "photo.jpg").write_bytes(picture())
    for name, medium in (("store", "jsonl"), ("sql", "sqlite")):
        for arguments in (
            ["init", "--sessions", medium],
            ["put", "note.txt", "photo.jpg", "--session", "s-1"],
        ):
            command = [sys.executable, "-m", "attachstore", "--store", name, *arguments]
            subprocess.run(command, cwd=folder, env=unset(), check=True, capture_output=True)
    return folder


def unset() -> dict[str, str]:
    """The environment without what the tests are told by it, which no command knows."""
    return {name: value for name, value in os.environ.items() if "ATTACHSTORE" not in name}


def loaded_by(row: Row, folder: Path) -> set[str]:
    """What of WATCHED a process that does the command has loaded at its end."""
    stand_ins = {
        "NOTE": ["note.txt"],
        "PHOTO": ["photo.jpg"],
        "DIGEST": [str(Digest.of(b"to do: nothing\n"))],
        "SQL": ["--store", "sql"],
    }
    arguments = [each for word in row.arguments.split() for each in stand_ins.get(word, [word])]
    environment = unset() | {"HOME": str(folder), "ATTACHSTORE_STORE": "store", "LOADED": "loaded"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        env=environment,
        input=row.stdin,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    loaded = set((folder / "loaded").read_text().splitlines())
    return {label for module, label in WATCHED.items() if module in loaded}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.arguments)
def test_a_command_loads_what_it_needs(row: Row, prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(prepared, folder)

    assert loaded_by(row, folder) == row.loaded


def test_every_command_is_in_the_table() -> None:
    groups = {path[:-1] for path in COMMANDS}
    commands = {" ".join(path) for path in COMMANDS if path not in groups}
    assert {row.command for row in TABLE} == commands
    assert all(f" {row.command} " in f" {row.arguments} " for row in TABLE)
