"""Media types: how a claim is written down, and which types are the same.

Only names are dealt with here; what bytes are is `sniffing`'s question.
"""

from __future__ import annotations

from attachstore.errors import InvalidMediaTypeError
from attachstore.reference import MEDIA_TYPE

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
OCTET_STREAM = "application/octet-stream"
JSON = "application/json"
NDJSON = "application/x-ndjson"
PLAIN = "text/plain"
SVG = "image/svg+xml"

ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/jfif": "image/jpeg",
    "image/mpo": "image/jpeg",
    "image/x-png": "image/png",
    "image/apng": "image/png",
    "image/vnd.mozilla.apng": "image/png",
    "image/x-webp": "image/webp",
    "image/x-bmp": "image/bmp",
    "image/x-ms-bmp": "image/bmp",
    "image/x-windows-bmp": "image/bmp",
    "image/tif": "image/tiff",
    "image/x-tiff": "image/tiff",
    "image/x-icon": "image/vnd.microsoft.icon",
    "image/ico": "image/vnd.microsoft.icon",
    "image/svg": SVG,
    "image/avif-sequence": "image/avif",
    "image/heic-sequence": "image/heic",
    "image/heif-sequence": "image/heif",
    "application/x-pdf": "application/pdf",
    "application/x-zip": "application/zip",
    "application/x-zip-compressed": "application/zip",
    "application/x-json": JSON,
    "text/json": JSON,
    "text/x-json": JSON,
    "application/ndjson": NDJSON,
    "application/jsonl": NDJSON,
    "application/jsonlines": NDJSON,
    "application/x-jsonlines": NDJSON,
    "application/x-jsonl": NDJSON,
    "text/jsonl": NDJSON,
    "text/x-markdown": "text/markdown",
    "text/comma-separated-values": "text/csv",
    "text/x-csv": "text/csv",
    "application/csv": "text/csv",
    "audio/mp3": "audio/mpeg",
    "audio/mpeg3": "audio/mpeg",
    "audio/x-mp3": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-pn-wav": "audio/wav",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/opus": "audio/ogg",
    "audio/vorbis": "audio/ogg",
    "audio/x-flac": "audio/flac",
    "application/ogg": "audio/ogg",
}
"""Names in use for the same bytes (libmagic's, pasteboards', older registrations): one each."""


def normalise(declared: str) -> str:
    """The claim as it is compared and logged: lower case, without parameters, no alias.

    Raises InvalidMediaTypeError for what is not type/subtype.
    """
    if not isinstance(declared, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        message = f"a declared type is text, not {type(declared).__name__}"
        raise TypeError(message)
    bare = declared.partition(";")[0].strip().lower()
    if not MEDIA_TYPE.fullmatch(bare):
        raise InvalidMediaTypeError(where="declared type", declared=ascii(declared[:100])[1:-1])
    return ALIASES.get(bare, bare)


def is_textual(media_type: str) -> bool:
    """Whether the type is a label for text: taken for any bytes that are nothing else."""
    return media_type.startswith("text/") or media_type in {JSON, NDJSON}
