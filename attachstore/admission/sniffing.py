"""Sniffing: what bytes are, whatever they are called.

Three levels of certainty. A type is *recognised* if its probe reads the header: that overrules
every claim. A *signature* alone (a cut or damaged file, or a text that happens to start so) counts
for bytes that are not text. Only what neither decides is asked of libmagic, whose guesses about
text are never used.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from attachstore.admission import archive, audio, gif, ico, isobmff, jpeg, pdf, png, text
from attachstore.admission.libmagic import FRONT_BYTES, guess
from attachstore.admission.media_type import ALIASES, OCTET_STREAM, SVG, is_textual
from attachstore.admission.probe import has_probe, probe
from attachstore.admission.reading import Reader
from attachstore.reference import MEDIA_TYPE

Guess = Callable[[bytes], str]
_FRONT_BYTES = 64
_NETPBM = re.compile(rb"P([1-7])[ \t\r\n]++(?:#[^\n]*+\n\s*+)*+\d{1,9}[ \t\r\n]++\d{1,9}[ \t\r\n]")
_NETPBM_TYPES = {
    b"1": "image/x-portable-bitmap",
    b"2": "image/x-portable-graymap",
    b"3": "image/x-portable-pixmap",
    b"4": "image/x-portable-bitmap",
    b"5": "image/x-portable-graymap",
    b"6": "image/x-portable-pixmap",
}
_SIGNATURES = (
    (jpeg.SIGNATURE, "image/jpeg"),
    (png.SIGNATURE, "image/png"),
    (gif.SIGNATURES[0], "image/gif"),
    (gif.SIGNATURES[1], "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"II+\0", "image/tiff"),
    (b"MM\0+", "image/tiff"),
    (ico.SIGNATURE, "image/vnd.microsoft.icon"),
    (b"%PDF-", "application/pdf"),
    (archive.SIGNATURES[0], archive.ZIP),
    (archive.SIGNATURES[1], archive.ZIP),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
)
_TYPES = dict(_SIGNATURES)
_ANY_SIGNATURE = re.compile(b"|".join(map(re.escape, _TYPES)))
_SIGNATURE_BYTES_MAX = max(map(len, _TYPES))
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def recognise(reader: Reader) -> str | None:
    """The type whose header these bytes carry; None if they carry none that we read."""
    reader.seek(0)
    front = reader.read(_FRONT_BYTES)
    candidate = _by_signature(front, partial=False)
    if candidate in _REFINED:
        candidate = _REFINED[candidate](_rewound(reader))
    if candidate is not None:
        return candidate if probe(reader, candidate) is not None else None
    if front[4:8] == b"ftyp":
        return isobmff.media_type(_rewound(reader))
    if _may_be_frames(front) and audio.is_mpeg(_rewound(reader)):
        return "audio/mpeg"
    return SVG if text.is_svg(_rewound(reader)) else None


def find(reader: Reader, ask: Guess = guess) -> str:
    """What undeclared bytes are; `ask` is libmagic, wherever it runs.

    Raises MissingDependencyError if only libmagic could say.
    """
    recognised = recognise(reader)
    if recognised is not None:
        return recognised
    reader.seek(0)
    front = reader.read(_FRONT_BYTES << 4)
    if found := _NETPBM.match(front):
        return _NETPBM_TYPES.get(found[1], "image/x-portable-arbitrarymap")
    if front.startswith(b"%!PS"):
        return "application/postscript"
    by_text = text.kind(_rewound(reader))
    by_signature = _by_signature(front, partial=True)
    if by_text is not None and by_signature not in _UNTYPABLE:
        return by_text
    if by_signature is not None and by_signature not in _WEAK:
        return by_signature
    return _unknown(reader, ask)


def settle(reader: Reader, declared: str, ask: Guess = guess) -> str:
    """What the bytes are under this claim: the claim itself if it holds, else what was found.

    Raises MissingDependencyError if only libmagic could confirm the claim.
    """
    recognised = recognise(reader)
    if recognised == declared:
        return declared
    if is_textual(declared):
        return declared if recognised is None else recognised
    if recognised is not None:
        return declared if _is_kind_of(reader, recognised, declared) else recognised
    if has_probe(declared):
        if probe(reader, declared) is not None:
            return declared
        return find(reader, ask)
    # Unknown bytes do not contradict a claim that has no signature; a picture has one.
    return find(reader, ask) if declared.startswith("image/") else declared


def _is_kind_of(reader: Reader, recognised: str, declared: str) -> bool:
    """Whether the claim is a more general or a more special name for what was recognised."""
    if declared in _GENERAL:
        return probe(reader, declared) is not None
    if recognised == archive.ZIP and declared in archive.OFFICE:
        return not archive.has_directory(_rewound(reader))  # cut off: the check will say so
    return recognised in _CONTAINERS and not has_probe(declared) and not is_textual(declared)


def _unknown(reader: Reader, ask: Guess) -> str:
    """libmagic's opinion of bytes that are not text: octet-stream where it has none."""
    answer = ask(_rewound(reader).read(FRONT_BYTES))
    answer = ALIASES.get(answer, answer)
    if answer.startswith(("text/", "inode/", "message/")) or not MEDIA_TYPE.fullmatch(answer):
        return OCTET_STREAM
    # A type of ours that its own probe has just denied is no finding.
    return OCTET_STREAM if has_probe(answer) else answer


def _by_signature(front: bytes, *, partial: bool) -> str | None:
    """The type whose signature these bytes start with; or, cut short, whose start they are."""
    found = _ANY_SIGNATURE.match(front)
    if found is not None:
        return _TYPES[found[0]]
    if partial and len(front) < _SIGNATURE_BYTES_MAX and not front.isascii():
        for signature, media_type in _SIGNATURES:
            if signature.startswith(front):
                return media_type
    if front[:4] in {b"RIFF", b"RF64"}:
        return _RIFF.get(front[8:12])
    return None


def _may_be_frames(front: bytes) -> bool:
    """MPEG audio without a tag has no signature but the sync bits of its first frame."""
    return front[:1] == b"\xff" and front[1:2] >= b"\xe2"


def _rewound(reader: Reader) -> Reader:
    reader.seek(0)
    return reader


def _pdf_type(reader: Reader) -> str | None:
    return "application/pdf" if pdf.recognise(reader) else None


_REFINED: dict[str | None, Callable[[Reader], str | None]] = {
    archive.ZIP: archive.media_type,
    "audio/ogg": audio.ogg_type,
    "application/pdf": _pdf_type,
}
_UNTYPABLE = frozenset({"image/jpeg", "image/png"})
"""Their signatures hold bytes that no text starts with; the others could be somebody's notes."""

_WEAK = frozenset({"image/bmp"})
"""Two letters are no evidence without the header behind them: much binary data begins so."""

_GENERAL = frozenset({archive.ZIP, "image/heif"})
_CONTAINERS = frozenset({archive.ZIP, "video/mp4", "video/quicktime"})
"""Many types are one of these inside, and have no other signature."""
