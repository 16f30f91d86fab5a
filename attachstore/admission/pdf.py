"""PDF: recognised by its header and a first object, opened and counted by qpdf (pikepdf)."""

from __future__ import annotations

import logging
import re
from typing import Any

from attachstore.admission.defect import Broken, Locked
from attachstore.admission.reading import Reader

_HEADER = re.compile(rb"%PDF-\d\.\d[ \t]*[\r\n]")
_OBJECT = re.compile(rb"(?:^|[\s\0])\d+[\s\0]+\d+[\s\0]+obj")
_NO_OUTPUT = logging.NullHandler()
_FRONT_BYTES = 64 << 10
_JUNK_BYTES_MAX = 1024
"""Readers accept a header this far in (ISO 32000-1, annex H.3.4.1 note 13)."""


def recognise(reader: Reader) -> bool:
    """Whether a PDF starts here: its header line, and an object not far behind."""
    front = reader.read(_FRONT_BYTES)
    found = _HEADER.search(front, 0, _JUNK_BYTES_MAX + 10)
    return found is not None and _OBJECT.search(front, found.end() - 1) is not None


def count_pages(reader: Any) -> int:
    """Open it as a viewer would, with nothing repaired, and count. Raises Defect."""
    import pikepdf  # noqa: PLC0415 - 60 ms that only a PDF is worth

    # Without a handler anywhere, Python would print qpdf's remarks on standard error.
    logging.getLogger("pikepdf").addHandler(_NO_OUTPUT)

    try:
        with pikepdf.open(
            reader, attempt_recovery=False, access_mode=pikepdf.AccessMode.stream
        ) as document:
            pages = len(document.pages)
    except pikepdf.PasswordError as error:
        raise Locked from error
    except pikepdf.PdfError as error:
        # qpdf names its input first, which here is the address of a Python object.
        _, _, reason = str(error).partition(">: ")
        raise Broken((reason or str(error) or "it does not open")[:200]) from error
    if not pages:
        raise Broken("it has no pages")
    return pages
