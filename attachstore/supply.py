"""Supply: the objects of a store, as its sessions need them for forks into another store.

Objects first, log second, here too: what a fork refers to is in the other store, verified and
durable, before the fork is.
"""

from __future__ import annotations

from attachstore.attach import ReferenceConfirmer
from attachstore.errors import DanglingReferenceError, ObjectCorruptError
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from attachstore.threads import CancelFlag


class Supply:
    """Made by `Store`, once for each."""

    def __init__(self, objects: ObjectStore, confirmer: ReferenceConfirmer) -> None:
        self._objects = objects
        self._confirmer = confirmer

    def bring(self, reference: Reference, source: Supply, cancel: CancelFlag) -> None:
        """Let `reference` hold here too: it is confirmed, or a copy is taken from `source`.

        A copy is verified as it is read there and as it is written here. No policy is asked: the
        bytes were admitted once, and the log is to stay as it is.

        Raises ObjectMissingError, ObjectCorruptError, HeaderMismatchError.
        """
        from attachstore.integrity.mending import Mender  # noqa: PLC0415 - forks across are rare

        try:
            self._confirmer.confirm(reference)
        except (DanglingReferenceError, ObjectCorruptError):
            Mender(self._objects, source._objects).mend(reference.digest, cancel)
            self._confirmer.confirm(reference)
