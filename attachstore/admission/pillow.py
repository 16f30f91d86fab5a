"""Pillow with settings of our own, whatever the host does with its.

Pillow keeps its settings in module globals (`ImageFile.LOAD_TRUNCATED_IMAGES`,
`Image.MAX_IMAGE_PIXELS`, `GifImagePlugin.LOADING_STRATEGY`, the plugin registry) and reports by
`warnings`, whose filters are the process's too. Any of them can turn a refusal into an acceptance
or back, and toggling them for a while would be seen by the host's other threads. So admission
loads Pillow's Python modules a second time, under a private name: same code, same compiled
codecs, separate globals. See docs/decisions/0010-a-private-pillow.md.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import sys
import threading
from types import ModuleType
from typing import Any, Protocol

from attachstore.errors import MissingDependencyError

_PRIVATE_NAME = "attachstore_private_pillow"
_PLUGINS = ("Bmp", "Gif", "Ico", "Jpeg", "Mpo", "Png", "Tiff", "WebP", "Avif")
_COMPILED = ("_imaging", "_webp", "_avif", "_imagingcms", "_imagingmath")
TEXT_BYTES_MAX = 64 << 20
"""Of one picture's decompressed text chunks. The policy's own limit is checked before."""


_loading = threading.Lock()


class Picture(Protocol):
    """What admission needs of an opened Pillow image."""

    size: tuple[int, int]
    mode: str
    format: str | None
    info: dict[Any, Any]

    def load(self) -> Any: ...
    def seek(self, frame: int) -> None: ...
    def close(self) -> None: ...
    def draft(self, mode: str | None, size: tuple[int, int] | None) -> Any: ...
    def thumbnail(self, size: tuple[int, int]) -> None: ...
    def convert(self, mode: str) -> Picture: ...
    def crop(self, box: tuple[int, int, int, int]) -> Picture: ...
    def tobytes(self) -> bytes: ...
    def save(self, fp: Any, format: str, **options: Any) -> None: ...  # noqa: A002 - Pillow's name


class _Silent:
    """Stands in for the `warnings` module: a picture's oddities are no news to the host."""

    def warn(self, *_arguments: object, **_keywords: object) -> None:
        return


class Pillow:
    """The private modules. `open` decodes nothing; every failure is the caller's to translate."""

    def __init__(self) -> None:
        self.image = _load("Image")
        self.operations = _load("ImageOps")
        image_file = _load("ImageFile")
        for plugin in _PLUGINS:
            _load(f"{plugin}ImagePlugin")
        self.image._initialized = 2  # noqa: SLF001 - our copy: no other plugins, ever
        self.image.MAX_IMAGE_PIXELS = None  # the policy's limits are checked before decoding
        image_file.LOAD_TRUNCATED_IMAGES = False
        png = _load("PngImagePlugin")
        png.MAX_TEXT_CHUNK = png.MAX_TEXT_MEMORY = TEXT_BYTES_MAX
        logger = logging.getLogger(_PRIVATE_NAME)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        for name, module in list(sys.modules.items()):
            if name.startswith(_PRIVATE_NAME) and hasattr(module, "warnings"):
                setattr(module, "warnings", _Silent())  # noqa: B010 - a module has no such field

    def open(self, reader: object, pillow_format: str) -> Picture:
        """An opened image of exactly this format. Raises whatever Pillow raises."""
        return self.image.open(reader, formats=(pillow_format,))


def pillow() -> Pillow:
    """The private Pillow, loaded on first use (some 100 ms). Raises MissingDependencyError."""
    with _loading:  # two threads must not fill the same private modules
        return _loaded()


@functools.cache
def _loaded() -> Pillow:
    spec = importlib.util.find_spec("PIL")
    if spec is None or spec.origin is None:
        raise MissingDependencyError(
            where="admission",
            package="Pillow",
            reason="pictures cannot be decoded without it",
            command="pip install pillow",
        )
    locations = list(spec.submodule_search_locations or ())
    private = importlib.util.spec_from_file_location(
        _PRIVATE_NAME, spec.origin, submodule_search_locations=locations
    )
    if private is None or private.loader is None:  # pragma: no cover - a file has a loader
        raise ImportError(spec.origin)
    package = importlib.util.module_from_spec(private)
    sys.modules[_PRIVATE_NAME] = package
    private.loader.exec_module(package)
    # The compiled modules hold no settings that change an outcome, and are shared.
    for name in _COMPILED:
        compiled = _import_or_none(f"PIL.{name}")
        if compiled is not None:
            sys.modules[f"{_PRIVATE_NAME}.{name}"] = compiled
            setattr(package, name, compiled)
    return Pillow()


def _load(name: str) -> Any:
    return importlib.import_module(f"{_PRIVATE_NAME}.{name}")


def _import_or_none(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:  # a build of Pillow without this codec
        return None
