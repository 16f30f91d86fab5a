"""HasherBeside: a digest in the making, whose blocks are hashed while the next ones are fetched.

Reading and hashing take a core each. Where there is no thread to be had, or no second core, the
caller's own thread hashes.
"""

from __future__ import annotations

import functools

from attachstore.cores import usable_cores
from attachstore.digest import Digest, Hasher
from attachstore.errors import ResourceExhaustedError
from attachstore.thread_pool import ThreadPool

BESIDE_FROM_BYTES = 16 << 20
"""Half of it takes as long with a thread as without; twice as much three fifths of the time."""

_POLL_S = 0.1


class HasherBeside:
    """As Hasher, with a thread of its own. For one caller, who closes it whatever happened.

    After an error it is of no use.
    """

    def __init__(self, size_bytes: int) -> None:
        """`size_bytes`: how many come, in blocks. Few do not pay for a thread."""
        self._hasher = Hasher()
        self._pool: ThreadPool[bool] | None = None
        self._is_hashing = False
        if size_bytes >= BESIDE_FROM_BYTES and usable_cores() > 1:
            self._pool = ThreadPool("attachstore-hash", 1)

    def update(self, block: memoryview) -> None:
        """Hash `block`, which must not change before the next call here has returned.

        Raises ResourceExhaustedError if the thread has died.
        """
        self._wait()
        if self._pool is not None:
            try:
                self._pool.submit(functools.partial(self._hash, block))
            except ResourceExhaustedError:  # no thread can be had: nothing has been done
                self.close()
            else:
                self._is_hashing = True
                return
        self._hasher.update(block)

    def digest(self) -> Digest:
        """Of all blocks. Raises as `update`."""
        self._wait()
        return self._hasher.digest()

    def close(self) -> None:
        """End the thread: nobody reads from a block any more. Safe to repeat."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.end()
            pool.join()

    def _hash(self, block: memoryview) -> bool:
        self._hasher.update(block)
        return True

    def _wait(self) -> None:
        if self._is_hashing and self._pool is not None:
            self._is_hashing = False  # its outcome comes once
            while self._pool.outcome(_POLL_S) is None:
                pass
