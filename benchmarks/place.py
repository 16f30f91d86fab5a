"""Where the benchmarks run: a fresh journaled file system if we may make one, else a directory.

Syncing costs what the file system makes of it, and a machine's own disk may have no journal (or
be memory, where it costs nothing). So, as root on Linux, an image with the defaults of mkfs.ext4
(or mkfs.xfs) is made in the given directory, mounted on a loop device, and removed afterwards.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from attachstore.layout import file_system_of

IMAGE_BYTES = 32 << 30  # sparse: it takes what the benchmarks write, about 5 GiB
MAKE = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f")}


@dataclass(frozen=True, slots=True)
class Place:
    """A directory to measure in, and what it is, in words."""

    directory: Path
    described: str


@contextlib.contextmanager
def best_place(directory: Path, file_system: str = "ext4") -> Generator[Place]:
    """An image in `directory` if we may, else a folder there; the description says which."""
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(journaled_image(directory, file_system))
        except (OSError, subprocess.SubprocessError) as error:
            place = stack.enter_context(plain_directory(directory))
            place = Place(place.directory, f"{place.described}; no loop image: {_reason(error)}")
        yield place


@contextlib.contextmanager
def journaled_image(directory: Path, file_system: str) -> Generator[Place]:
    """A fresh file system on a loop device. OSError or SubprocessError: that cannot be had."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="bench-") as made:
        image, mounted = Path(made) / "image", Path(made) / "mounted"
        mounted.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _run(*MAKE[file_system], str(image))
        _run("mount", "-o", "loop", str(image), str(mounted))
        try:
            yield Place(mounted, f"a fresh loop image: {describe(mounted)}; on {describe(image)}")
        finally:
            # Lazily: after an error a file may still be open, and the image must not stay.
            _run("umount", "--lazy", str(mounted))


@contextlib.contextmanager
def plain_directory(directory: Path) -> Generator[Place]:
    """A new folder in `directory`, removed afterwards."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="bench-") as made:
        yield Place(Path(made), describe(directory))


def describe(path: Path) -> str:
    """`ext4, journaled`, as far as the machine tells."""
    found = file_system_of(path.resolve())
    return f"{found.kind}, {found.promise}"


def _run(*command: str) -> None:
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"there is no {command[0]}")
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    text = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return " ".join(str(text).split())
