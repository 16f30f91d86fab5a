"""Frames while there is no memory: what the library tells of that is no damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attachstore.sessions import loose_end, zstd_frames

LINES = b"a line\n" * 100
(FRAME,) = zstd_frames.compress([LINES])
SAID = [
    "Unable to allocate lock",
    "Unable to create ZSTD_DCtx instance.",
    "Unable to decompress Zstandard data: Allocation error : not enough memory",
]


def read(offset_bytes: int, size_bytes: int) -> bytes:
    return FRAME[offset_bytes : offset_bytes + size_bytes]


def unended() -> zstd_frames.FrameWriter:
    writer = zstd_frames.FrameWriter()
    writer.add(LINES)
    return writer


ASKED: dict[str, Callable[[], object]] = {
    "compress": lambda: list(zstd_frames.compress([LINES])),
    "compress many": lambda: list(zstd_frames.compress([LINES * 3000])),
    "begin a frame": zstd_frames.FrameWriter,
    "decompress": lambda: zstd_frames.decompress(FRAME, len(LINES)),
    "look at a loose end": lambda: loose_end.examine(read, 0, len(FRAME), b""),
}


def starve(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    zstd = zstd_frames.library()

    def refuse(*_: Any, **_options: Any) -> Any:
        raise zstd.ZstdError(said)

    for name in ("compress", "ZstdCompressor", "ZstdDecompressor"):
        monkeypatch.setattr(zstd, name, refuse)


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_no_memory_is_a_memory_error(
    ask: Callable[[], object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for damage it would accuse good bytes, or have them cut off as a loose end."""
    starve(monkeypatch, said)

    with pytest.raises(MemoryError):
        ask()


def test_no_memory_in_the_middle_of_a_frame_is_a_memory_error() -> None:
    zstd = zstd_frames.library()
    writer = unended()

    class Starved:
        FLUSH_BLOCK = FLUSH_FRAME = 0

        def compress(self, *_: object) -> bytes:
            raise zstd.ZstdError(SAID[2])

        flush = compress

    writer._compressor = Starved()

    with pytest.raises(MemoryError):
        writer.add(LINES)
    with pytest.raises(MemoryError):
        writer.end()


def test_damage_is_no_lack_of_memory() -> None:
    flipped = bytearray(FRAME)
    flipped[len(FRAME) // 2] ^= 1

    assert zstd_frames.decompress(FRAME, len(LINES)) == LINES
    assert zstd_frames.decompress(bytes(flipped), len(LINES)) is None
