"""Digest: the name of an object, and every use of BLAKE3 in the package.

The written form `blake3:<64 lower-case hex>` is a registered algorithm of the OCI image
specification (descriptor.md, "Registered algorithms").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from blake3 import blake3

from attachstore.errors import InvalidReferenceError

ALGORITHM = "blake3"
CHECKSUM_BYTES = 16

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
        return cls(blake3(data).hexdigest())

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

    def __init__(self) -> None:
        self._state = blake3()

    def update(self, block: bytes | bytearray | memoryview) -> None:
        try:
            self._state.update(block)
        except BaseException as error:
            if out_of_memory(error):
                raise MemoryError from error
            raise

    def digest(self) -> Digest:
        return Digest(self._state.hexdigest())


def checksum(*parts: bytes | memoryview) -> bytes:
    """First 128 bits of BLAKE3 over the parts: the chain and header checks of session logs.

    Against accidents, not attackers: 16 bytes keep log lines short.
    """
    whole = parts[0] if len(parts) == 1 else b"".join(parts)  # a copy is less than a call
    return blake3(whole).digest(CHECKSUM_BYTES)


def chained(before: bytes, body: bytes) -> bytes:
    """`checksum` of the two, for every event that is written or read."""
    return blake3(before + body).digest(CHECKSUM_BYTES)
