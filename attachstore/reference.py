"""Reference: what an event holds in place of an attachment's bytes.

Written as `{"$attach": {...}}` at any depth of an event's data; the fields are those of an OCI
content descriptor (digest, size, mediaType) and what a runtime wants to know without opening
the object. How references are found in, and told apart from, user data is in
`attachstore.sessions.data`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

from attachstore.arguments import check_int, check_kind
from attachstore.digest import Digest
from attachstore.errors import InvalidNameError, InvalidReferenceError

KEY = "$attach"
NAME_BYTES_MAX = 1024
SIZE_BYTES_MAX = 2**63 - 1

# RFC 6838 section 4.2: restricted names, at most 127 characters each.
MEDIA_TYPE = re.compile(
    r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Promise that `size` bytes with this digest are durable.

    Only `ObjectStore.commit` makes new ones; decoding a session log makes old ones again.
    `size` is in bytes, `width` and `height` in stored pixels of frame 0 (no EXIF rotation);
    `frames` and `pages` are counts. `name` is a label: kept as given, never used as a path,
    and no part of the object's identity.
    """

    digest: Digest
    size: int
    media_type: str
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    pages: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if type(self.digest) is not Digest or type(self.size) is not int:  # cheap: logs hold many
            check_kind("digest", self.digest, Digest)
            check_int("size", self.size, 0)
        if not 0 <= self.size <= SIZE_BYTES_MAX:
            message = f"size must be 0 to 2**63-1 bytes: {self.size}"
            raise ValueError(message)
        if not MEDIA_TYPE.fullmatch(self.media_type):
            message = f"not a lower-case media type: {self.media_type[:100]!r}"
            raise ValueError(message)
        for field in ("width", "height", "frames", "pages"):
            value = getattr(self, field)
            if value is not None and (type(value) is not int or not 0 < value <= SIZE_BYTES_MAX):
                check_int(field, value, 0)
                message = f"{field} must be positive: {value}"
                raise ValueError(message)
        if self.name is not None:
            check_name(self.name)

    def without_name(self) -> Reference:
        """The same promise without its label: what two uses of one object share."""
        return replace(self, name=None)

    def to_json(self) -> dict[str, dict[str, str | int]]:
        """The written form, absent fields left out."""
        body: dict[str, str | int] = {"digest": str(self.digest)}
        for field in _OPTIONAL_LAST:
            value = getattr(self, field)
            if value is not None:
                body[field] = value
        return {KEY: body}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read the written form, strictly. Raises InvalidReferenceError."""
        given: object = value
        outer = cast("dict[object, object]", value) if isinstance(value, dict) else {}
        inner = outer.get(KEY)
        if len(outer) != 1 or KEY not in outer:
            raise _invalid(given, f"expected an object whose only key is {KEY}")
        if not isinstance(inner, dict):
            raise _invalid(given, f"the value of {KEY} must be an object")
        body = cast("dict[str, Any]", inner)
        _check_types(body)
        digest = Digest.parse(body["digest"])
        try:
            return cls(digest=digest, **{key: body[key] for key in body if key != "digest"})
        except ValueError as error:
            raise _invalid(given, str(error)) from None
        except InvalidNameError as error:
            raise _invalid(given, error.reason) from None


_OPTIONAL_LAST = tuple(field.name for field in fields(Reference))[1:]
_TEXTS = frozenset({"digest", "media_type", "name"})
_TYPES = {name: str if name in _TEXTS else int for name in ("digest", *_OPTIONAL_LAST)}
_REQUIRED = frozenset({"digest", "size", "media_type"})


def _check_types(body: Mapping[str, object]) -> None:
    """Only known fields, each of its own type: a bool is no size, an unknown field no label."""
    absent = _REQUIRED - body.keys()
    if absent:
        raise _invalid(body, f"{min(absent)} is absent")
    for field, value in body.items():
        wanted = _TYPES.get(field)
        if wanted is None:
            raise _invalid(body, f"unknown field {field[:40]!r}")
        if type(value) is not wanted:
            raise _invalid(body, f"{field} must be {'text' if wanted is str else 'an integer'}")


def _invalid(value: object, reason: str) -> InvalidReferenceError:
    return InvalidReferenceError(where="reference", text=repr(value)[:200], reason=reason)


def check_name(name: str) -> str:
    """Return `name` if it can be kept exactly. Raises InvalidNameError."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        message = f"a name is text, not {type(name).__name__}"
        raise TypeError(message)
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidNameError(
            where="name", name=ascii(name[:100]), reason="it is not UTF-8 (a lone surrogate)"
        ) from None
    if length > NAME_BYTES_MAX:
        raise InvalidNameError(
            where="name",
            name=ascii(name[:60] + "…"),
            reason=f"it takes {length} bytes of UTF-8, the limit is {NAME_BYTES_MAX}",
        )
    return name
