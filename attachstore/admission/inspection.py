"""Inspection: the questions of admission, in the order that decides which refusal wins.

    bytes limit -> name -> claim well-formed -> claim allowed -> claim against bytes ->
    found type allowed -> header limits -> decode

`admit` stops at the first refusal; `examine` asks on and collects them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from attachstore.admission import archive, audio, sniffing, text
from attachstore.admission.contents import open_content
from attachstore.admission.decoders import IN_PROCESS, Decoders, DecodersClosedError
from attachstore.admission.decoding import PLACE, Limits
from attachstore.admission.defect import Broken, Cut, Defect, Excess, Locked
from attachstore.admission.duration import duration_s
from attachstore.admission.images import DECODED_BY_EXTRA, FORMATS
from attachstore.admission.media_type import OCTET_STREAM, is_textual, normalise
from attachstore.admission.policy import AdmissionPolicy
from attachstore.admission.probe import probe
from attachstore.admission.reading import Reader
from attachstore.attachment import Attachment, Content, Header
from attachstore.disk import unavailable
from attachstore.errors import (
    AdmissionError,
    AttachstoreError,
    CorruptImageError,
    DecoderFailedError,
    EmptyContentError,
    EncryptedDocumentError,
    InvalidDocumentError,
    InvalidTextError,
    MediaTypeMismatchError,
    MissingDependencyError,
    TooManyBytesError,
    TooMuchMetadataError,
    TruncatedImageError,
    UnsupportedMediaTypeError,
)
from attachstore.reference import check_name
from attachstore.threads import CancelFlag

T = TypeVar("T")
Report = Callable[[AttachstoreError], None]


@dataclass(frozen=True, slots=True)
class Examination:
    """What admission would say. `header` is None where the type itself could not be settled."""

    header: Header | None
    frames: int | None
    pages: int | None
    findings: tuple[AttachstoreError, ...]
    """AdmissionErrors; and MissingDependencyError, where only what is missing could tell."""
    duration_s: float | None = None
    """Of a sound, where the extra `audio` is installed and its header says."""

    @property
    def admissible(self) -> bool:
        return self.header is not None and not self.findings


def admit(
    content: Content,
    policy: AdmissionPolicy,
    *,
    declared: str | None = None,
    name: str | None = None,
    cancel: CancelFlag | None = None,
    decoders: Decoders = IN_PROCESS,
) -> Attachment:
    """Let `content` in: what it is, whole, and within the policy's limits.

    Blocking: a picture is decoded in full, which costs CPU time and memory for two of its
    frames. `content` stays the caller's to close. Raises AdmissionError; UnavailableError if
    libmagic is needed and missing, or if the bytes cannot be read.
    """
    found = _Inspection(content, policy, (declared, name), cancel, decoders, _refuse).run()
    if found.header is None:  # pragma: no cover - without a header there was a refusal
        raise AssertionError(content.digest)
    return Attachment(
        content=content, header=found.header, frames=found.frames, pages=found.pages, name=name
    )


def examine(
    content: Content,
    policy: AdmissionPolicy,
    *,
    declared: str | None = None,
    name: str | None = None,
    cancel: CancelFlag | None = None,
    decoders: Decoders = IN_PROCESS,
) -> Examination:
    """Ask every question of `admit`, and report all that it would refuse, not only the first."""
    findings: list[AttachstoreError] = []
    found = _Inspection(content, policy, (declared, name), cancel, decoders, findings.append).run()
    sounds = found.header is not None and found.header.media_type in _AUDIO_CHECKS
    length_s = duration_s(content, cancel) if sounds else None
    return Examination(found.header, found.frames, found.pages, tuple(findings), length_s)


def _refuse(error: AttachstoreError) -> None:
    raise error


@dataclass(slots=True)
class _Found:
    header: Header | None = None
    frames: int | None = None
    pages: int | None = None


class _Inspection:
    """One content under one policy; `report` raises or collects."""

    def __init__(
        self,
        content: Content,
        policy: AdmissionPolicy,
        said: tuple[str | None, str | None],
        cancel: CancelFlag | None,
        decoders: Decoders,
        report: Report,
    ) -> None:
        self._content = content
        self._policy = policy
        self._declared, self._name = said
        self._cancel = cancel
        self._decoders = decoders
        self._report = report
        self._where = PLACE if self._name is None else ascii(self._name[:200])[1:-1]
        self._found = _Found()
        self._faulty = False

    def run(self) -> _Found:
        if self._content.size > self._policy.bytes_max:
            self._report(TooManyBytesError(where=self._where, bytes_max=self._policy.bytes_max))
        self._reporting(lambda: check_name(self._name) if self._name is not None else None)
        claim = self._reporting(lambda: self._claim(self._declared))
        if claim is not None:
            self._check_allowed(claim)
        if not self._content.size:
            self._check_empty(claim)
            return self._found
        try:
            with open_content(self._content, self._cancel) as reader:
                self._inspect(reader, claim)
        except OSError as error:
            raise unavailable(error, self._where) from error
        return self._found

    def _inspect(self, reader: Reader, claim: str | None) -> None:
        try:
            media_type = self._settled(reader, claim)
        except MissingDependencyError as error:
            self._report(error)
            return
        except (AttachstoreError, DecodersClosedError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - as below: hostile bytes, surprised parsers
            self._report(self._surprise(claim or OCTET_STREAM, error))
            return
        if claim is not None and media_type != claim:
            self._report(
                MediaTypeMismatchError(where=self._where, declared=claim, found=media_type)
            )
        if media_type != claim:
            self._check_allowed(media_type)
        self._check_bytes(media_type)
        header = probe(reader, media_type)
        reader.seek(0)
        self._faulty = False
        try:
            self._guarded(media_type, lambda: self._look_inside(reader, media_type, header))
        except MissingDependencyError as error:
            if media_type in DECODED_BY_EXTRA and not self._policy.names(media_type):
                header = Header(media_type=media_type)  # stored unopened: nothing is said of it
            else:
                self._fault(error)
        self._found.header = header
        if header is None and not self._faulty:
            reason = "its header cannot be read"
            self._report(
                InvalidDocumentError(where=self._where, media_type=media_type, reason=reason)
            )

    def _settled(self, reader: Reader, claim: str | None) -> str:
        def ask(front: bytes) -> str:
            return self._decoders.guess(front, self._cancel)

        if claim is None:
            return sniffing.find(reader, ask)
        return sniffing.settle(reader, claim, ask)

    def _look_inside(self, reader: Reader, media_type: str, header: Header | None) -> None:
        """Limits, completeness, decoding. Raises AdmissionError and Defect."""
        if media_type in FORMATS:
            self._look_at_picture(reader, media_type, header)
        elif media_type == "application/pdf":
            self._found.pages = self._decoders.pages(self._content, self._cancel)
        elif media_type == archive.ZIP or media_type in archive.OFFICE:
            archive.check(reader, self._policy.archive_entries_max, self._policy.archive_bytes_max)
        elif media_type in _AUDIO_CHECKS:
            _AUDIO_CHECKS[media_type](reader)
        elif is_textual(media_type) and self._policy.text_utf8:
            self._check_utf8(reader, media_type)

    def _look_at_picture(self, reader: Reader, media_type: str, header: Header | None) -> None:
        if header is None or header.width is None or header.height is None:
            if media_type in DECODED_BY_EXTRA:
                self._decode(media_type, (0, 0))  # says first whether there is a decoder
            raise _headless(reader, media_type)
        size = (header.width, header.height)
        violations = Limits.of_header(self._policy, media_type, *size)
        for violation in violations:
            violation.where = self._where
            self._report(violation)
        if not violations:
            self._found.frames = self._decode(media_type, size)

    def _decode(self, media_type: str, size: tuple[int, int]) -> int:
        return self._decoders.frames(self._content, media_type, size, self._policy, self._cancel)

    def _guarded(self, media_type: str, look: Callable[[], None]) -> None:
        """Turn what `look` raises into this package's errors, and report them."""
        try:
            look()
        except AdmissionError as error:
            error.where = self._where
            self._fault(error)
        except (AttachstoreError, DecodersClosedError):
            raise
        except Defect as defect:
            if not self._is_tolerated(media_type, defect):
                self._fault(self._translated(media_type, defect))
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - parsers raise whatever they like on hostile bytes
            self._fault(self._surprise(media_type, error))

    def _fault(self, error: AttachstoreError) -> None:
        self._faulty = True
        self._report(error)

    def _surprise(self, media_type: str, error: Exception) -> DecoderFailedError:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        return DecoderFailedError(where=self._where, media_type=media_type, reason=reason)

    def _is_tolerated(self, media_type: str, defect: Defect) -> bool:
        if media_type in FORMATS or isinstance(defect, Excess):
            return False
        if isinstance(defect, Locked):
            return self._policy.encrypted_documents
        return self._policy.broken_documents

    def _translated(self, media_type: str, defect: Defect) -> AdmissionError:
        where = self._where
        if isinstance(defect, Locked):
            return EncryptedDocumentError(where=where, media_type=media_type)
        if isinstance(defect, Excess):
            return TooMuchMetadataError(where=where, media_type=media_type, reason=defect.reason)
        if media_type not in FORMATS:
            return InvalidDocumentError(where=where, media_type=media_type, reason=defect.reason)
        if isinstance(defect, Cut):
            return TruncatedImageError(where=where, media_type=media_type, reason=defect.reason)
        return CorruptImageError(where=where, media_type=media_type, reason=defect.reason)

    def _reporting(self, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except AdmissionError as error:
            error.where = self._where
            self._report(error)
            return None

    def _claim(self, declared: str | None) -> str | None:
        return None if declared is None else normalise(declared)

    def _check_allowed(self, media_type: str) -> None:
        if not self._policy.allows(media_type):
            self._report(UnsupportedMediaTypeError(where=self._where, media_type=media_type))

    def _check_bytes(self, media_type: str) -> None:
        """Some policies allow some types less than others; more than all was looked at before."""
        bytes_max = self._policy.bytes_max_of(media_type)
        if bytes_max < self._content.size <= self._policy.bytes_max:
            self._report(TooManyBytesError(where=self._where, bytes_max=bytes_max))

    def _check_empty(self, claim: str | None) -> None:
        if claim is None or not claim.startswith("text/"):
            self._report(EmptyContentError(where=self._where))
            return
        self._found.header = Header(media_type=claim)

    def _check_utf8(self, reader: Reader, media_type: str) -> None:
        wrong = text.check_utf8(reader)
        if wrong is not None:
            raise InvalidTextError(
                where=self._where, media_type=media_type, offset_bytes=wrong[0], reason=wrong[1]
            )


def _headless(reader: Reader, media_type: str) -> Defect:
    """Why a picture with the right signature has no readable header: mostly, it is cut."""
    try:
        for _ in FORMATS[media_type].frames(reader, 1 << 30):
            return Broken("its header cannot be read")
    except Defect as defect:
        return defect
    return Broken("its header cannot be read")


_AUDIO_CHECKS: dict[str, Callable[[Reader], None]] = {
    "audio/mpeg": audio.check_mpeg,
    "audio/wav": audio.check_wave,
    "audio/flac": audio.check_flac,
    "audio/ogg": audio.check_ogg,
    "audio/mp4": audio.check_mp4,
}
