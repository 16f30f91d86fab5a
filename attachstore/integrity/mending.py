"""Mending: a verified copy from another store takes the place of what is corrupt or missing.

The copy is verified by the other store before its first byte is handed out, and hashed once more
as it is written here. Then it goes the way of every commit: a free name is linked, bad bytes are
judged once more under the lock, swapped for the good ones, and kept in the quarantine. Nothing is
ever deleted, here or there.
"""

from __future__ import annotations

from attachstore.digest import Digest
from attachstore.errors import StorageIOError
from attachstore.objects.store import CommitOutcome, ObjectStore
from attachstore.threads import CancelFlag

_HOW = {
    CommitOutcome.STORED: "a verified copy from {copies} was stored",
    CommitOutcome.HEALED: (
        "a verified copy from {copies} took its place, and the bad bytes are in quarantine"
    ),
    CommitOutcome.DUPLICATE: "somebody mended it meanwhile",
}


class Mender:
    """Mends `objects` with what `copies` has; reads of `copies`, writes to `objects`."""

    def __init__(self, objects: ObjectStore, copies: ObjectStore) -> None:
        self._objects = objects
        self._copies = copies

    @property
    def location(self) -> str:
        return self._copies.backend.location

    def mend(self, digest: Digest, cancel: CancelFlag) -> str:
        """Put a verified copy in place, durably; says how it went.

        Raises AttachstoreError: there is no whole copy, or this store cannot take it.
        """
        spool = self._objects.spool()
        try:
            stream = self._copies.stream(digest, cancel)
            try:
                while block := stream.read_block():
                    cancel.check()
                    spool.write(block)
            finally:
                stream.close()
            content = spool.finish()
        finally:
            spool.discard()
        try:
            if content.digest != digest:
                raise StorageIOError(
                    where=self.location, reason=f"the copy of {digest} changed while it was read"
                )
            outcome = self._objects.restore(content, cancel)
        finally:
            content.close()
        return _HOW[outcome].format(copies=self.location)
