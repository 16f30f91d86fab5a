"""Admission: from bytes to an Attachment, or to a refusal that says how to mend it.

Nothing is admitted that is not what it says it is, whole, and within the policy's limits. Every
exception that a decoding library raises becomes one of the package's own errors. Pillow,
libmagic and qpdf are imported when first needed, here and nowhere else in the package.
"""

from attachstore.admission.inspection import Examination, admit, examine
from attachstore.admission.policy import AdmissionPolicy
from attachstore.admission.source import Gatherer, read_file
from attachstore.admission.thumbnails import thumbnail

__all__ = [
    "AdmissionPolicy",
    "Examination",
    "Gatherer",
    "admit",
    "examine",
    "read_file",
    "thumbnail",
]
