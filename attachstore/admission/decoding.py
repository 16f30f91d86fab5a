"""Decoding a picture in full: every pixel of every frame, within the policy's limits.

Costs the CPU time to decode, and memory for two frames; never call it on the event loop.
"""

from __future__ import annotations

from typing import Any

from attachstore.admission import heif, scan
from attachstore.admission.defect import Broken, Cut, Defect
from attachstore.admission.images import DECODED_BY_EXTRA, FORMATS
from attachstore.admission.pillow import pillow
from attachstore.admission.policy import AdmissionPolicy
from attachstore.admission.reading import Reader
from attachstore.errors import (
    AdmissionError,
    AttachstoreError,
    DimensionLimitError,
    MissingDependencyError,
    TooManyFramesError,
    TooManyPixelsError,
)

_FRAME_COUNT_IS_EXACT = frozenset({"image/png", "image/gif", "image/webp", "image/tiff"})
PLACE = "attachment"
"""Where it is, in errors from here; who called knows better and says so."""
_ICON = "image/vnd.microsoft.icon"


class Limits:
    """The policy's limits, applied to one frame after the other before anything is decoded."""

    def __init__(self, policy: AdmissionPolicy, media_type: str) -> None:
        self._policy = policy
        self._media_type = media_type
        self._pixels = 0
        self.frames = 0

    def add(self, width: int, height: int) -> None:
        """Count a frame. Raises AdmissionError at the first limit that it passes."""
        self.frames += 1
        self._pixels += width * height
        for violation in self.violations(width, height):
            raise violation

    @classmethod
    def of_header(
        cls, policy: AdmissionPolicy, media_type: str, width: int, height: int
    ) -> list[AdmissionError]:
        """Every limit that the first frame alone is over."""
        limits = cls(policy, media_type)
        limits.frames, limits._pixels = 1, width * height
        return limits.violations(width, height)

    def violations(self, width: int, height: int) -> list[AdmissionError]:
        """Every limit that this frame, or all frames so far, are over."""
        policy, found = self._policy, list[AdmissionError]()
        for limit, pixels in (
            ("pixels_max", width * height),
            ("frames_pixels_max", self._pixels),
        ):
            maximum = getattr(policy, limit)
            if pixels > maximum:
                found.append(
                    TooManyPixelsError(
                        where=PLACE,
                        media_type=self._media_type,
                        width=width,
                        height=height,
                        frames=self.frames,
                        limit=limit,
                        maximum=maximum,
                    )
                )
        if max(width, height) > policy.side_max:
            found.append(
                DimensionLimitError(
                    where=PLACE,
                    media_type=self._media_type,
                    width=width,
                    height=height,
                    side_max=policy.side_max,
                )
            )
        frames_max = policy.frames_max_of(self._media_type)
        if self.frames > frames_max:
            found.append(
                TooManyFramesError(where=PLACE, media_type=self._media_type, frames_max=frames_max)
            )
        return found


def decode(reader: Reader, media_type: str, size: tuple[int, int], policy: AdmissionPolicy) -> int:
    """Decode all of it; returns the number of frames. `size` is what the probe said.

    Raises AdmissionError for limits, Defect for damage, MissingDependencyError for a format whose
    extra is not installed or a decoder that does not load, and whatever a broken medium raises.
    """
    if media_type in DECODED_BY_EXTRA:
        heif.require()  # whatever is wrong with the picture, without it nothing is known
    limits = Limits(policy, media_type)
    reader.seek(0)
    for width, height in FORMATS[media_type].frames(reader, policy.metadata_bytes_max):
        limits.add(width, height)
    reader.seek(0)
    try:
        count = _decode_frames(reader, media_type, size, Limits(policy, media_type))
    except (AttachstoreError, Defect):
        raise
    except OSError as error:
        if error.errno is not None:  # the medium under the reader, not the picture
            raise
        raise _defect(error) from error
    except (MemoryError, RecursionError):
        raise
    except ImportError as error:
        raise MissingDependencyError(
            where="admission",
            package="Pillow",
            reason=f"it cannot be loaded ({error})",
            command="pip install --force-reinstall pillow",
        ) from error
    except Exception as error:
        # Pillow raises whatever its parsers stumble over: SyntaxError, IndexError, struct.error,
        # ValueError, TypeError, EOFError, KeyError, OverflowError, ZeroDivisionError, ...
        raise _defect(error) from error
    if media_type in _FRAME_COUNT_IS_EXACT and count != limits.frames:
        raise Broken(f"{count} of {limits.frames} frames decode")
    return count


def _decode_frames(reader: Reader, media_type: str, size: tuple[int, int], limits: Limits) -> int:
    if media_type in DECODED_BY_EXTRA:
        return heif.decode(reader, media_type, size, limits)
    decoded = 1 if media_type == "image/jpeg" and scan.decode_whole(reader, size) else 0
    reader.seek(0)
    picture = pillow().open(reader, FORMATS[media_type].pillow_format)
    if picture.size not in _agreeing(media_type, size):
        found = f"{picture.size[0]}x{picture.size[1]}"
        raise Broken(f"its header says {size[0]}x{size[1]}, the decoder finds {found}")
    if media_type == _ICON:
        return _decode_icons(picture, limits)
    while True:
        try:
            picture.seek(limits.frames)
        except EOFError:
            break
        limits.add(*picture.size)
        if limits.frames > decoded:
            picture.load()
    if not limits.frames:
        raise Broken("it holds no frame that decodes")
    return limits.frames


def _decode_icons(picture: Any, limits: Limits) -> int:
    """An icon's pictures are no frames to Pillow, but entries."""
    for entry in range(len(picture.ico.entry)):
        icon = picture.ico.frame(entry)
        limits.add(*icon.size)
        icon.load()
    return limits.frames


def _agreeing(media_type: str, size: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Pillow turns a TIFF by its orientation when it opens it; the reference does not."""
    return (size, (size[1], size[0])) if media_type == "image/tiff" else (size,)


def _defect(error: Exception) -> Defect:
    text = str(error) or type(error).__name__
    if text.startswith("cannot identify image file"):  # and then the address of our reader
        text = "this is no picture"
    reason = f"the decoder says: {text.splitlines()[0][:200]}"
    cut = isinstance(error, EOFError) or "truncated" in text.lower()
    return Cut(reason) if cut else Broken(reason)
