"""HEIC and HEIF, decoded by libheif, where the extra `heif` (pillow-heif) is installed.

pillow-heif keeps its settings in module globals that are the host's. As with Pillow, its Python
modules are loaded a second time under a private name, with settings of our own; its Pillow plugin
is never registered. See docs/decisions/0016-heic-by-an-extra.md.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from typing import Any, Protocol

from attachstore.admission import isobmff
from attachstore.admission.defect import Broken
from attachstore.admission.reading import Reader
from attachstore.errors import AdmissionError, DecoderFailedError, MissingDependencyError

_PRIVATE_NAME = "attachstore_private_pillow_heif"
_loading = threading.Lock()


class FrameLimits(Protocol):
    """The part of `decoding.Limits` that is needed here."""

    frames: int

    def add(self, width: int, height: int) -> None: ...
    def violations(self, width: int, height: int) -> list[AdmissionError]: ...


def require() -> Any:
    """The private pillow-heif, loaded on first use. Raises MissingDependencyError."""
    with _loading:  # two threads must not fill the same private modules
        return _loaded()


def decode(reader: Reader, media_type: str, size: tuple[int, int], limits: FrameLimits) -> int:
    """Decode every picture of the file; returns how many. `size` is the primary's stored size.

    Raises AdmissionError, MissingDependencyError, Defect, and whatever libheif makes pillow-heif
    raise for damage. The whole file is read into memory.
    """
    library = require()
    expected = isobmff.shown_sizes(reader)
    reader.seek(0)
    for stored in isobmff.stored_sizes(reader):  # a crop hides how much is decoded
        for violation in limits.violations(*stored):
            raise violation
    reader.seek(0)
    try:
        found = library.open_heif(reader.read())
        if len(found) and found.size not in expected:
            shown = f"{found.size[0]}x{found.size[1]}"
            raise Broken(f"its header says {size[0]}x{size[1]}, the decoder finds {shown}")
        while len(found):
            limits.add(*found[0].size)
            found[0].load()
            del found[0]  # or the pixels of all of them would be held
    except SyntaxError as error:  # pillow-heif's name for what this build of libheif cannot do
        reason = " ".join(str(error).split())[:200]
        raise DecoderFailedError(
            where="attachment", media_type=media_type, reason=reason
        ) from error
    if not limits.frames:
        raise Broken("it holds no picture that decodes")
    return limits.frames


def first(data: bytes) -> tuple[str, tuple[int, int], bytes, int]:
    """Mode, size, pixels and stride of the primary picture, upright. Raises as `decode` does."""
    found = require().open_heif(data)
    pixels = found.data
    return found.mode, found.size, pixels, found.stride


@functools.cache
def _loaded() -> Any:
    missing = MissingDependencyError(
        where="admission",
        package="pillow-heif",
        reason="HEIC and HEIF are decoded by it",
        command="pip install 'attachstore[heif]'",
    )
    spec = importlib.util.find_spec("pillow_heif")
    if spec is None or spec.origin is None:
        raise missing
    private = importlib.util.spec_from_file_location(
        _PRIVATE_NAME,
        spec.origin,
        submodule_search_locations=list(spec.submodule_search_locations or ()),
    )
    if private is None or private.loader is None:  # pragma: no cover - a file has a loader
        raise missing
    package: Any = importlib.util.module_from_spec(private)
    sys.modules[_PRIVATE_NAME] = package
    try:
        private.loader.exec_module(package)
    except ImportError as error:
        missing.reason = f"it cannot be loaded ({error})"
        raise missing from error
    package.options.DECODE_THREADS = 1  # one attachment, one processor
    package.options.THUMBNAILS = package.options.DEPTH_IMAGES = package.options.AUX_IMAGES = False
    return package
