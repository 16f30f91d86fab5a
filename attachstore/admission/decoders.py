"""Decoders: the three questions that C libraries answer, and where they are asked.

Everything else in admission is Python that cannot crash the process. These can: Pillow's codecs,
qpdf, libmagic. So they sit behind one seam with two implementations: `InProcess`, for short
commands and hosts that cannot start processes, and `attachstore.admission.pool.ProcessPool`,
which asks a worker process and outlives whatever happens to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from attachstore.admission import pdf
from attachstore.admission.contents import open_content
from attachstore.admission.decoding import decode
from attachstore.admission.libmagic import guess
from attachstore.admission.policy import AdmissionPolicy
from attachstore.attachment import Content
from attachstore.threads import CancelFlag


class DecodersClosedError(ValueError):
    """Asked after they were closed: a wrong call, and no fault of the bytes."""


class Decoders(Protocol):
    """Blocking; safe to use from several threads at once.

    Each method raises Defect or AdmissionError for what is wrong with the bytes, and
    DecoderFailedError if a decoder crashed, or took too much time or memory.
    """

    def frames(
        self,
        content: Content,
        media_type: str,
        size: tuple[int, int],
        policy: AdmissionPolicy,
        cancel: CancelFlag | None,
    ) -> int:
        """Decode a picture in full, within the policy's limits; how many frames it has.

        `size` is what the probe said, and what the decoder must find.
        """
        ...

    def pages(self, content: Content, cancel: CancelFlag | None) -> int:
        """Open a PDF; how many pages it has."""
        ...

    def guess(self, front: bytes, cancel: CancelFlag | None) -> str:
        """libmagic's name for these bytes. Raises MissingDependencyError."""
        ...

    def while_waiting(self, work: Callable[[], None]) -> Decoders:
        """The same decoders, which call `work` once while they first wait for an answer.

        Never called where nothing is waited for. `work` must not raise, but for Cancelled.
        """
        ...


class InProcess:
    """The decoders of this process. A crash in one of them is a crash of the host."""

    def frames(
        self,
        content: Content,
        media_type: str,
        size: tuple[int, int],
        policy: AdmissionPolicy,
        cancel: CancelFlag | None,
    ) -> int:
        with open_content(content, cancel) as reader:
            return decode(reader, media_type, size, policy)

    def pages(self, content: Content, cancel: CancelFlag | None) -> int:
        with open_content(content, cancel) as reader:
            return pdf.count_pages(reader)

    def guess(self, front: bytes, cancel: CancelFlag | None) -> str:
        del cancel
        return guess(front)

    def while_waiting(self, work: Callable[[], None]) -> Self:
        del work  # the thread itself decodes
        return self


IN_PROCESS = InProcess()
