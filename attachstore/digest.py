"""Digest: the name of an object, and every use of BLAKE3 in the package.

The written form `blake3:<64 lower-case hex>` is a registered algorithm of the OCI image
specification (descriptor.md, "Registered algorithms").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from blake3 import blake3

from attachstore.cores import usable_cores
from attachstore.errors import InvalidReferenceError

ALGORITHM = "blake3"
CHECKSUM_BYTES = 16

SHARED_FROM_BYTES = 4 << 20
"""Two threads hash so many bytes, that are in memory at once, in two thirds of the time of one,
their start included. From 2 MiB on they gain something; fed with blocks of 1 MiB, little."""
HASH_THREADS_MAX = 4
"""For one object: others may be hashed meanwhile."""

_HEX_64 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """BLAKE3-256 of an object's bytes, as 64 lower-case hex digits.

    Equal digests mean equal bytes, so a Digest is all an object needs for a name.
    """

    hex: str

    def __post_init__(self) -> None:
        # A Digest becomes a file name and an S3 key: nothing else may pass here.
        if not _HEX_64.fullmatch(self.hex):
            message = f"not 64 lower-case hex digits: {self.hex[:80]!r}"
            raise ValueError(message)

    @classmethod
    def of(cls, data: bytes | bytearray | memoryview) -> Self:
        """The digest of `data`."""
        if len(data) < SHARED_FROM_BYTES:
            return cls(blake3(data).hexdigest())
        hasher = Hasher(len(data))
        hasher.update(data)
        return cls(hasher.digest().hex)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the written form, `blake3:<64 hex>`. Raises InvalidReferenceError."""
        algorithm, _, hex_digits = text.partition(":")
        if algorithm == ALGORITHM:
            try:
                return cls(hex_digits)
            except ValueError:
                pass
        raise InvalidReferenceError(
            where="digest", text=text[:100], reason="expected blake3:<64 hex digits>"
        )

    def __str__(self) -> str:
        return f"{ALGORITHM}:{self.hex}"


def out_of_memory(error: BaseException) -> bool:
    """Whether this is how the wheel, which is made of Rust, tells that there is no memory."""
    return type(error).__name__ == "PanicException"


class Hasher:
    """A digest in the making: feed it blocks, then ask."""

    __slots__ = ("_state",)

    def __init__(self, size_bytes: int = 0) -> None:
        """`size_bytes`: how many come, in few large blocks. Many are hashed by several threads."""
        self._state = _shared_state() if size_bytes >= SHARED_FROM_BYTES else blake3()

    def update(self, block: bytes | bytearray | memoryview) -> None:
        try:
            self._state.update(block)
        except BaseException as error:
            if out_of_memory(error):
                raise MemoryError from error
            raise

    def digest(self) -> Digest:
        return Digest(self._state.hexdigest())


def _shared_state() -> blake3:
    """A state that has threads of its own, which end with it; without, if there are none to have.

    Never the threads that the library shares between its callers: after `os.fork()` the child
    would wait for them for ever.
    """
    threads = min(usable_cores(), HASH_THREADS_MAX)
    if threads > 1:
        try:
            return blake3(max_threads=threads)
        except BaseException as error:
            if not out_of_memory(error):
                raise
    return blake3()


def checksum(*parts: bytes | memoryview) -> bytes:
    """First 128 bits of BLAKE3 over the parts: the chain and header checks of session logs.

    Against accidents, not attackers: 16 bytes keep log lines short.
    """
    whole = parts[0] if len(parts) == 1 else b"".join(parts)  # a copy is less than a call
    return blake3(whole).digest(CHECKSUM_BYTES)


def chained(before: bytes, body: bytes) -> bytes:
    """`checksum` of the two, for every event that is written or read."""
    return blake3(before + body).digest(CHECKSUM_BYTES)
