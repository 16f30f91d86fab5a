"""DeepCheck: whether an object still decodes as it did when its reference was made.

Frames and pages are the one thing a reference says that only a decoder knows. What the decoder
answers now is compared with that; what it refuses for reasons that lie with this machine or this
policy (a limit, a library that is not there, a worker that died) says nothing about the object.
"""

from __future__ import annotations

from dataclasses import dataclass

from attachstore.admission.decoders import IN_PROCESS, Decoders
from attachstore.admission.defect import Defect, Excess
from attachstore.admission.images import FORMATS
from attachstore.admission.policy import AdmissionPolicy
from attachstore.attachment import Content
from attachstore.digest import Digest
from attachstore.errors import (
    AdmissionError,
    AttachstoreError,
    MissingDependencyError,
    ResourceExhaustedError,
)
from attachstore.integrity.claims import Claim
from attachstore.objects.backend import StoredObject
from attachstore.objects.reading import StoredContent
from attachstore.threads import CancelFlag

PDF = "application/pdf"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a decoder said."""

    frames: int | None = None
    pages: int | None = None
    defect: str | None = None
    """Why it does not decode; then there are no frames and pages."""
    unknown: str | None = None
    """Why it could not be decoded here, which accuses nobody."""

    def differences(self, claim: Claim) -> tuple[tuple[str, str, str], ...]:
        """(field, logged, actual) where the claim says something else."""
        said = (
            ("frames", claim.frames, self.frames),
            ("pages", claim.pages, self.pages),
        )
        return tuple(
            (field, str(logged), str(actual))
            for field, logged, actual in said
            if logged is not None and logged != actual
        )


class DeepCheck:
    """Decodes objects again. For any thread."""

    def __init__(
        self, policy: AdmissionPolicy | None = None, decoders: Decoders = IN_PROCESS
    ) -> None:
        """`policy` gives the limits; what is over them is not decoded."""
        self._policy = policy or AdmissionPolicy()
        self._decoders = decoders

    def decode(
        self, stored: StoredObject, digest: Digest, claim: Claim, cancel: CancelFlag
    ) -> Decoded | None:
        """Decode a verified object whose header bears the claim out; None: nothing to decode.

        Raises AttachstoreError where the medium did not answer.
        """
        content = StoredContent(stored, digest, claim.size)
        try:
            return self._ask(content, claim, cancel)
        except Excess as limit:
            return Decoded(unknown=limit.reason)
        except Defect as defect:
            return Decoded(defect=defect.reason)
        except (AdmissionError, MissingDependencyError, ResourceExhaustedError) as error:
            return Decoded(unknown=str(error))
        except AttachstoreError:
            raise
        except Exception as error:  # noqa: BLE001 - hostile bytes, surprised parsers
            return Decoded(unknown=f"{type(error).__name__}: {str(error)[:200]}")

    def _ask(self, content: Content, claim: Claim, cancel: CancelFlag) -> Decoded | None:
        if claim.frames is not None and claim.media_type in FORMATS:
            size = (claim.width or 0, claim.height or 0)
            frames = self._decoders.frames(content, claim.media_type, size, self._policy, cancel)
            return Decoded(frames=frames)
        if claim.pages is not None and claim.media_type == PDF:
            return Decoded(pages=self._decoders.pages(content, cancel))
        return None
