"""What the format modules find wrong, before it is known whose attachment it is.

`attachstore.admission.inspection` turns these into the package's errors, with media type and place.
"""

from __future__ import annotations


class Defect(Exception):  # noqa: N818 - a finding; never leaves admission
    """Bytes that may not be admitted as what they claim to be.

    `args[0]` is the reason, if it needs one.
    """

    @property
    def reason(self) -> str:
        return str(self.args[0]) if self.args else ""


class Cut(Defect):
    """The end is missing."""


class Broken(Defect):
    """Something in the middle is wrong."""


class Excess(Defect):
    """More metadata than is reasonable."""


class Locked(Defect):
    """A password is needed."""
