"""Judging: from what a checker found to suspects, and to what is done about them.

(1) Nothing is moved or mended unless it was asked for, and then only what was read twice, and is
    hashed once more under its directory's lock.
(2) With a mender corrupt, unreadable and missing objects are mended where a whole copy exists.
    What cannot be mended stays a fault, and says why.
(3) Whatever was done is a suspect afterwards: no action without a line in the report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from attachstore.digest import Digest
from attachstore.errors import (
    AttachstoreError,
    ObjectCorruptError,
    ObjectMissingError,
    StoreLayoutError,
)
from attachstore.integrity.checking import Checked, Checker
from attachstore.integrity.mending import Mender
from attachstore.integrity.suspects import Suspect, Suspects
from attachstore.objects.store import ObjectStore
from attachstore.threads import CancelFlag

_log = logging.getLogger("attachstore")


class Judge:
    """One scan's judge, in the scanning thread."""

    def __init__(
        self,
        objects: ObjectStore,
        suspects: Suspects,
        make_checker: Callable[[CancelFlag], Checker],
        cancel: CancelFlag,
        *,
        quarantine: bool = False,
        mender: Mender | None = None,
    ) -> None:
        self._objects = objects
        self.suspects = suspects
        self._make_checker = make_checker
        self._cancel = cancel
        self._quarantine = quarantine
        self._mender = mender
        self.gone = set[Digest]()
        """Listed, moved away by others since, and needed by nobody."""
        self.found: list[Suspect] = []
        """Every suspect, in the order in which they were found."""

    @property
    def acts(self) -> bool:
        """Whether it changes anything in the store."""
        return self._quarantine or self._mender is not None

    def judge(self, checked: Checked) -> None:
        """Turn what was found wrong with an object into suspects, whose uses are looked up."""
        digest, error = checked.task.digest, checked.error
        if isinstance(error, ObjectMissingError):
            if checked.task.claims:
                self._mend(checked, Suspect.missing(digest, self._hint(digest)))
            else:  # moved away since it was listed, and nobody needs it
                self.gone.add(digest)
        elif error is not None:
            self._mend(checked, Suspect.bad(digest, error))
        else:
            for claim, differences in checked.mismatches:
                self.add(Suspect.mismatch(digest, claim, differences))
            for claim, decoded in checked.undecoded:
                self.add(Suspect.undecoded(digest, claim, decoded))

    def add(self, suspect: Suspect) -> None:
        self.found.append(suspect)
        self.suspects.add(suspect)

    def _mend(self, checked: Checked, suspect: Suspect) -> None:
        """Mend the object if that was asked for; else, or in vain, move it aside if that was."""
        digest, error = checked.task.digest, checked.error
        if self._mender is not None and not isinstance(error, StoreLayoutError):
            try:
                how = self._mender.mend(digest, self._cancel)
            except AttachstoreError as refusal:
                why = f"it could not be mended from {self._mender.location}: {refusal}"
                suspect.unmended = why.rstrip(".")
            else:
                _log.warning("mended object %s from %s", digest, self._mender.location)
                self.add(suspect.mended(how))
                again = self._check(checked)
                if again is not None:
                    self._judge_mended(again)
                return
        if isinstance(error, ObjectCorruptError) and self._quarantine:
            self._move_aside(checked, suspect)
        else:
            self.add(suspect)

    def _judge_mended(self, checked: Checked) -> None:
        """What is wrong with a mended object is told, and not mended again."""
        mender, self._mender = self._mender, None
        try:
            self.judge(checked)
        finally:
            self._mender = mender

    def _move_aside(self, checked: Checked, suspect: Suspect) -> None:
        digest = checked.task.digest
        try:
            moved = self._objects.quarantine(digest, "scan", self._cancel)
        except AttachstoreError as refusal:
            what = f"{suspect.finding.what}; it stays where it is: {refusal}"
            suspect.finding = replace(suspect.finding, what=what)
            self.add(suspect)
            return
        if moved:
            suspect.finding = replace(suspect.finding, quarantined=True)
            self.add(suspect)
            return
        # Somebody healed it, or moved it away, after the second reading.
        again = self._check(checked)
        if again is None:
            return
        if isinstance(again.error, ObjectCorruptError):
            self.add(Suspect.bad(digest, again.error))
        else:
            self.judge(again)

    def _check(self, checked: Checked) -> Checked | None:
        return self._make_checker(self._cancel).check(checked.task)

    def _hint(self, digest: Digest) -> str | None:
        """Where a whole copy of a missing object is kept, if there is one."""
        error = self._objects.verify(digest, self._cancel).error
        return error.hint if isinstance(error, ObjectMissingError) else None
