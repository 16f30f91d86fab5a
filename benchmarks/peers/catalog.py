"""All peers, and the versions of those that are installed."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sqlite3
import subprocess

from benchmarks.peers.files import FILES
from benchmarks.peers.git import GIT
from benchmarks.peers.npm import NPM
from benchmarks.peers.npm import version as npm_version
from benchmarks.peers.peer import PEERS, Peer
from benchmarks.peers.stores import STORES

CATALOG: tuple[Peer, ...] = (*FILES, *GIT, *STORES, *NPM)
PACKAGES = ("disk-objectstore", "dulwich", "google-adk", "openai-agents", "pydantic-ai-harness")
PROGRAMS = ("git", "cp", "sha256sum", "b3sum")


def versions() -> dict[str, str]:
    """Name and version of everything that is compared with; `absent` where it is not there."""
    found = {name: _package(name) for name in PACKAGES}
    found |= {name: _program(name) for name in PROGRAMS}
    return {**found, "cacache": npm_version(), "SQLite": sqlite3.sqlite_version}


def _package(name: str) -> str:
    try:
        (version,) = {each.version for each in _installed(name)}
    except ValueError:
        return "absent"
    return version


def _installed(name: str) -> list[importlib.metadata.Distribution]:
    return list(importlib.metadata.distributions(name=name, path=[str(PEERS)]))


def _program(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        return "absent"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\d+(\.\d+)+", said.stdout)
    return number[0] if number else "absent"
