"""Valid documents and audio, as small as they come; no sample or page of them means anything."""

from __future__ import annotations

import io
import struct
import wave
import zipfile
from collections.abc import Sequence

from attachstore.admission.media_type import DOCX, PPTX, XLSX

_OFFICE = {DOCX: "word/document.xml", XLSX: "xl/workbook.xml", PPTX: "ppt/presentation.xml"}


def zip_of(names: Sequence[str], *, body: bytes = b"hello") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, body)
    return target.getvalue()


def office(media_type: str) -> bytes:
    return zip_of(["[Content_Types].xml", "_rels/.rels", _OFFICE[media_type], "docProps/app.xml"])


def open_document() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("content.xml", "<x/>")
    return target.getvalue()


def pdf(pages: int = 1) -> bytes:
    kids = " ".join(f"{number} 0 R" for number in range(3, 3 + pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode(),
        *[b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] >>"] * pages,
    ]
    body = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    offsets: list[int] = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    xref = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(body))
    return body + xref + trailer


def wav(samples: int = 100) -> bytes:
    target = io.BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\1\2" * samples)
    return target.getvalue()


def mp3(frames: int = 4, *, tag: bytes = b"") -> bytes:
    """MPEG 1 layer III, 128 kbit/s, 44 100 Hz: frames of 417 bytes."""
    return tag + (b"\xff\xfb\x90\x00" + bytes(413)) * frames


def flac() -> bytes:
    return b"fLaC" + b"\x80\0\0\x22" + bytes(34) + b"\xff\xf8\xc9\x18" + bytes(20)


def ogg(packet: bytes = b"OpusHead" + bytes(11)) -> bytes:
    def page(kind: int, number: int, body: bytes) -> bytes:
        head = struct.pack("<4sBBqLLLB", b"OggS", 0, kind, 0, 7, number, 0, 1)
        return head + bytes([len(body)]) + body

    return page(2, 0, packet) + page(0, 1, b"OpusTags" + bytes(8)) + page(4, 2, bytes(50))


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">L", 8 + len(body)) + kind + body


def m4a(brand: bytes = b"M4A ", handler: bytes = b"soun") -> bytes:
    track = box(b"trak", box(b"mdia", box(b"hdlr", bytes(8) + handler + bytes(13))))
    return (
        box(b"ftyp", brand + bytes(4) + b"isommp42")
        + box(b"moov", box(b"mvhd", bytes(20)) + track)
        + box(b"mdat", bytes(range(64)))
    )


SVG = b'<?xml version="1.0"?>\n<!-- a circle -->\n<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>\n'
HTML = b"<!DOCTYPE html>\n<html><body>hello</body></html>\n"
