"""FileNames: names that attachments can be written under, whatever they were called.

The name in a reference is a label, kept as given. A name given out here may be used as one path
segment on Linux, macOS and Windows alike:

 (1) It holds no separator, control, format (bidi), unassigned, private or surrogate character,
     nor any of < > : " | ? *; it is NFC and takes at most 255 bytes of UTF-8.
 (2) It does not begin with a dot, dash, tilde or space, nor end with a dot or space, and is no
     device name of Windows (CON, NUL.txt, COM1.log, LPT¹).
 (3) No two names of one FileNames fall together where case, or NFC and NFD, are not told apart.
 (4) Its extension is the name's own where the media type allows that, else the type's.

Sources: Microsoft, "Naming Files, Paths, and Namespaces"; Unicode 3.13, default caseless matching.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

FILE_NAME_BYTES_MAX = 255

_FORBIDDEN = frozenset('<>:"/\\|?*')
_DROPPED = frozenset({"Cf"})  # invisible: bidi overrides, joiners, the byte order mark
_REPLACED = frozenset({"Cc", "Cn", "Co", "Cs"})
_LINE_BREAKS = frozenset({"Zl", "Zp"})
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"}
)
_SEPARATORS = re.compile(r"[/\\]")
_TRAILING = re.compile(r"[\s.]+\Z")
_EXTENSION = re.compile(r"(?s)(.+)\.((?=[0-9]*[A-Za-z])[0-9A-Za-z]{1,10})")

# The first extension is added where none fits. A type that is told by its bytes takes only its
# own extensions, so that a PNG called invoice.pdf opens as a picture.
_OWN_EXTENSIONS: dict[str, tuple[str, ...]] = {
    "image/jpeg": ("jpg", "jpeg", "jpe", "jfif", "mpo"),
    "image/png": ("png", "apng"),
    "image/gif": ("gif",),
    "image/webp": ("webp",),
    "image/avif": ("avif",),
    "image/heic": ("heic", "heif"),
    "image/bmp": ("bmp", "dib"),
    "image/tiff": ("tiff", "tif"),
    "image/svg+xml": ("svg",),
    "application/pdf": ("pdf",),
    "audio/mpeg": ("mp3", "mp2", "mpga"),
    "audio/wav": ("wav", "wave"),
    "audio/mp4": ("m4a", "m4b", "mp4"),
    "audio/ogg": ("ogg", "oga", "opus"),
    "audio/flac": ("flac",),
    "video/mp4": ("mp4", "m4v"),
    "video/webm": ("webm",),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ("docx",),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ("xlsx",),
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ("pptx",),
}
_USUAL_EXTENSION = {
    "text/plain": "txt",
    "text/html": "html",
    "text/csv": "csv",
    "text/markdown": "md",
    "text/xml": "xml",
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/xml": "xml",
    "application/zip": "zip",
    "application/gzip": "gz",
}


class FileNames:
    """Gives out names for one directory, each once. Remembers every name it gave."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        """`reserved` are names that must never be given."""
        self._taken = {collision_key(name) for name in reserved}
        self._next_number: dict[str, int] = {}

    def give(self, name: str | None, media_type: str, fallback: str) -> str:
        """A safe name not given before, as like `name` as may be.

        `fallback` is the stem where `name` is absent or nothing of it can be kept.
        """
        stem, extension = _split(name, media_type, fallback)
        wanted = collision_key(_fit(stem, "", extension))
        number = self._next_number.get(wanted, 1)
        while True:
            chosen = _fit(stem, "" if number == 1 else f" ({number})", extension)
            key = collision_key(chosen)
            number += 1
            if key not in self._taken:
                break
        # The next one of that name starts counting here: 10 000 of `image.png` stay linear.
        self._next_number[wanted] = number
        self._taken.add(key)
        return chosen


def safe_name(name: str | None, media_type: str, fallback: str) -> str:
    """The name `FileNames` would give first; what another attachment is called plays no part."""
    stem, extension = _split(name, media_type, fallback)
    return _fit(stem, "", extension)


def collision_key(name: str) -> str:
    """Equal for names that any common file system takes for one.

    Folding more than a file system does costs a number in brackets, folding less a lost file.
    """
    folded = unicodedata.normalize("NFKD", name).upper().casefold()
    return unicodedata.normalize("NFKD", folded)


def _split(name: str | None, media_type: str, fallback: str) -> tuple[str, str]:
    """Safe stem, and extension with its dot."""
    cleaned = _clean(_last_part(name or "")) or _clean(fallback)
    stem, extension = _with_extension(cleaned, media_type)
    return _guarded(stem), extension


def _last_part(name: str) -> str:
    """What a path calls its file: `..\\a/b.txt` gives `b.txt`, `..` gives nothing."""
    parts = [part for part in _SEPARATORS.split(name) if part.strip(" .")]
    return parts[-1] if parts else ""


def _clean(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    # Twice: dropping an invisible character may bring two together that compose.
    kept = unicodedata.normalize("NFC", "".join(map(_safe_character, composed)))
    return _TRAILING.sub("", kept).lstrip()


def _safe_character(character: str) -> str:
    category = unicodedata.category(character)
    if category in _DROPPED:
        return ""
    if category in _LINE_BREAKS:
        return " "
    return "_" if category in _REPLACED or character in _FORBIDDEN else character


def _with_extension(cleaned: str, media_type: str) -> tuple[str, str]:
    found = _EXTENSION.fullmatch(cleaned)
    own = _OWN_EXTENSIONS.get(media_type)
    if found and (own is None or found[2].lower() in own):
        return found[1], f".{found[2]}"
    return cleaned, f".{own[0] if own else _USUAL_EXTENSION.get(media_type, 'bin')}"


def _guarded(stem: str) -> str:
    """Put an underscore before what shells, tools or Windows would take for something else."""
    device = stem.partition(".")[0].strip().casefold()
    return f"_{stem}" if stem.startswith((".", "-", "~")) or device in _DEVICES else stem


def _fit(stem: str, suffix: str, extension: str) -> str:
    """Shorten the stem until all of it takes at most FILE_NAME_BYTES_MAX bytes."""
    room = FILE_NAME_BYTES_MAX - len((suffix + extension).encode())
    cut = stem.encode()[:room].decode(errors="ignore")
    return f"{cut if cut == stem else cut.rstrip()}{suffix}{extension}"
