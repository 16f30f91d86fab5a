"""Digest: the name of an object, and every use of BLAKE3 in the package.

The written form `blake3:<64 lower-case hex>` is a registered algorithm of the OCI image
specification (descriptor.md, "Registered algorithms").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from blake3 import blake3

from attachstore.arguments import check_kind
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
_HEX = re.compile(r"[0-9a-f]{0,64}")


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
        hasher = Hasher(len(data))
        hasher.update(data)
        return cls(hasher.hex_digits())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the written form, `blake3:<64 hex>`. Raises InvalidReferenceError."""
        check_kind("a written digest", text, str, "text")
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


def hex_prefix(text: str) -> str:
    """The digits with which digests begin, `blake3:` before them or not; maybe none.

    Raises TypeError, ValueError.
    """
    check_kind("a prefix", text, str, "text")
    digits = text.removeprefix(f"{ALGORITHM}:")
    if not _HEX.fullmatch(digits):
        message = f"a prefix is up to 64 lower-case hex digits, not {text[:80]!a}"
        raise ValueError(message)
    return digits


def _is_panic(kind: type[BaseException] | None) -> bool:
    """Whether this is how the wheel, which is made of Rust, tells that there is no memory."""
    return kind is not None and kind.__name__ == "PanicException"


class _Panics:
    """Turns that, which is no Exception and which no caller would catch, into MemoryError."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if _is_panic(kind):
            raise MemoryError("no memory for a hash") from None


_PANICS = _Panics()


class Hasher:
    """A digest in the making: feed it blocks, then ask."""

    __slots__ = ("_state",)

    def __init__(self, size_bytes: int = 0) -> None:
        """`size_bytes`: how many come, in few large blocks. Many are hashed by several threads."""
        with _PANICS:
            self._state = _shared_state() if size_bytes >= SHARED_FROM_BYTES else blake3()

    def update(self, block: bytes | bytearray | memoryview) -> None:
        with _PANICS:
            self._state.update(block)

    def digest(self) -> Digest:
        return Digest(self.hex_digits())

    def hex_digits(self) -> str:
        with _PANICS:
            return self._state.hexdigest()


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
            if not _is_panic(type(error)):
                raise
    return blake3()


def hex_digits(block: bytes | bytearray | memoryview) -> str:
    """Those of the digest of `block`, less than a MiB: for every small object that a scan reads."""
    try:  # unlike `with`, this costs nothing
        return blake3(block).hexdigest()
    except BaseException:
        with _PANICS:
            raise


def checksum(*parts: bytes | memoryview) -> bytes:
    """First 128 bits of BLAKE3 over the parts: the chain and header checks of session logs.

    Against accidents, not attackers: 16 bytes keep log lines short.
    """
    whole = parts[0] if len(parts) == 1 else b"".join(parts)  # a copy is less than a call
    with _PANICS:
        return blake3(whole).digest(CHECKSUM_BYTES)


def chained(before: bytes, body: bytes) -> bytes:
    """`checksum` of the two, for every event that is written or read."""
    try:  # unlike `with`, this costs nothing
        return blake3(before + body).digest(CHECKSUM_BYTES)
    except BaseException:
        with _PANICS:
            raise


def chained_all(before: bytes, bodies: Iterable[bytes]) -> list[bytes]:
    """`chained` of each body to the one before. One state is used again: at half the price."""
    chains: list[bytes] = []
    add = chains.append
    try:
        state = blake3()
        for body in bodies:
            state.reset()
            state.update(before + body)
            before = state.digest(CHECKSUM_BYTES)
            add(before)
    except BaseException:
        with _PANICS:
            raise
    return chains
