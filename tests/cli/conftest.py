"""A command with a store and a home of its own, and files to attach."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from tests.cli.running import Cli


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Neither the developer's settings nor their home play a part."""
    for name in list(os.environ):
        if name.startswith(("ATTACHSTORE_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NO_COLOR", "1")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return Cli(tmp_path / "store", os.environ)


def picture(kind: str = "JPEG", size: tuple[int, int] = (64, 48), colour: str = "gold") -> bytes:
    target = io.BytesIO()
    image = Image.new("RGB", size, "skyblue")
    ImageDraw.Draw(image).ellipse((8, 8, 40, 40), fill=colour)
    image.save(target, kind)
    return target.getvalue()


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.jpg"
    path.write_bytes(picture())
    return path


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.txt"
    path.write_bytes(b"to do: nothing\n")
    return path


@pytest.fixture
def cut_photo(tmp_path: Path) -> Path:
    """A picture whose end is missing: refused."""
    path = tmp_path / "cut.jpg"
    path.write_bytes(picture()[:-200])
    return path
