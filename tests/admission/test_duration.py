"""How long a sound is: said where its headers say it, and never a reason to refuse."""

from __future__ import annotations

import builtins
import io
import struct
import sys
from typing import Any

import pytest

from attachstore.admission import AdmissionPolicy, duration, examine
from attachstore.attachment import BytesContent
from attachstore.threads import CancelFlag, Cancelled
from tests.admission import documents


def flac(samples: int, rate_hz: int) -> bytes:
    """STREAMINFO: 20 bits of rate, 3 of channels, 5 of depth, 36 of samples at byte 10."""
    packed = rate_hz << 44 | 1 << 41 | 15 << 36 | samples
    info = bytes(10) + packed.to_bytes(8, "big") + bytes(16)
    frame = b"\xff\xf8\xc9\x18" + bytes(2000)
    return b"fLaC" + b"\x80\0\0\x22" + info + frame


def opus(samples: int) -> bytes:
    head = b"OpusHead" + struct.pack("<BBHLHB", 1, 1, 0, 48_000, 0, 0)
    data = bytearray(documents.ogg(head))
    last = data.rindex(b"OggS")
    data[last + 6 : last + 14] = struct.pack("<q", samples)
    return bytes(data)


def m4a(units: int, units_per_s: int) -> bytes:
    whole = documents.m4a()
    blank = documents.box(b"mvhd", bytes(20))
    filled = documents.box(b"mvhd", bytes(12) + struct.pack(">LL", units_per_s, units))
    assert blank in whole
    return whole.replace(blank, filled)


def seconds(data: bytes) -> float | None:
    found = examine(BytesContent(data), AdmissionPolicy())
    assert found.header is not None, found
    return found.duration_s


@pytest.mark.parametrize(
    ("data", "expected_s"),
    [
        (documents.wav(16_000), 2.0),
        (documents.mp3(1000), 26.1),
        (documents.mp3(1000, tag=b"ID3\x03\0\0\0\0\0\x0a" + bytes(10)), 26.1),
        (flac(88_200, 44_100), 2.0),
        (opus(48_000), 1.0),
        (m4a(1500, 1000), 1.5),
    ],
    ids=["wav", "mp3", "mp3 with a tag", "flac", "opus", "m4a"],
)
def test_a_sound_says_how_long_it_is(data: bytes, expected_s: float) -> None:
    assert seconds(data) == pytest.approx(expected_s, abs=0.1)


def test_nobody_is_told_a_length_that_no_one_filled_in() -> None:
    """A WAV from a pipe says 4 GiB of samples; some writers leave 0."""
    data = documents.wav(100)
    at = data.index(b"data") + 4
    piped = data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]

    for unfilled in (piped, flac(0, 44_100), m4a(0, 1000), m4a(1500, 0), m4a(1 << 31, 1)):
        assert seconds(unfilled) is None


def test_other_types_have_no_length() -> None:
    for data in (documents.pdf(), b"text\n", documents.zip_of(["a"])):
        assert seconds(data) is None


def test_a_broken_tag_refuses_nothing() -> None:
    """The length is a service; what is admitted is decided before."""
    data = documents.mp3(1000, tag=b"ID3\x03\0\x40\x7f\x7f\x7f\x7f" + b"\xfe" * 300)

    found = examine(BytesContent(data), AdmissionPolicy())

    assert found.admissible


def test_without_the_extra_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_tinytag(name: str, *rest: Any) -> Any:
        if name == "tinytag":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.delitem(sys.modules, "tinytag", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_tinytag)

    assert seconds(documents.wav(16_000)) is None


def test_a_parser_that_runs_in_circles_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duration, "_CALLS_MAX", 2)

    assert seconds(documents.wav(16_000)) is None


def test_a_cancelled_caller_hears_of_it() -> None:
    """tinytag turns every exception into its own."""
    cancel = CancelFlag()
    cancel.set()
    content = BytesContent(io.BytesIO(documents.mp3(6000)).getvalue())

    with pytest.raises(Cancelled):
        duration.duration_s(content, cancel)
