"""An event's data in JSON: references at any depth, user data that looks like them escaped.

Written, a reference is an object whose only key is `$attach`. A user's object whose only key is
`$attach`, with any number of `$` before it, gets one more `$`; reading takes one away. So every
JSON value comes back as it was, whatever it looks like.

Only what comes back exactly is let in: dict with str keys, list, str, int, float, bool, None and
Reference, and no subclasses of them (a tuple would come back as a list, an enum as its value).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, cast

import msgspec

from attachstore.errors import EventTooLargeError, InvalidEventError, InvalidReferenceError
from attachstore.reference import KEY, Reference

DEPTH_MAX = 200
"""Of arrays and objects in each other, in the written form: a reference counts as two."""
INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)

_LOOK_ALIKE = re.compile(r"\$+attach")
_ESCAPED = re.compile(r"\$\$+attach")
_REFERENCE_DEPTH = 2
_INTEGER_DIGITS_MAX = 19
_WORDS = {"Input data was truncated": "it ends too early, or in half of a surrogate pair"}
"""Ours for msgspec's, which takes half a pair shortly before a text's end for a missing end."""
_encoder = msgspec.json.Encoder()


class BadDataError(ValueError):
    """Stored bytes that are not an event's data. Becomes a reason in a damage report."""


class _RefusedError(Exception):
    """Why a value cannot be written, and the way to it, collected from the inside out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []


# -- writing -----------------------------------------------------------------------------------


def encode(
    data: object, *, where: str, bytes_max: int | None = None
) -> tuple[bytes, list[Reference]]:
    """`data` as JSON, and the references in it, in order. The caller may change `data` after.

    Raises InvalidEventError with a JSON pointer to the value at fault, EventTooLargeError.
    """
    found: list[Reference] = []
    try:
        encoded = _encoder.encode(_to_wire(data, 1, found))
    except _RefusedError as refused:
        pointer = "".join(f"/{_pointer_token(key)}" for key in reversed(refused.path))
        raise InvalidEventError(
            where=where, reason=refused.reason, pointer=ascii(pointer)[1:-1] or "the top"
        ) from None
    except RecursionError:
        raise InvalidEventError(
            where=where, reason="the caller's own stack is too deep to encode it", pointer="the top"
        ) from None
    if bytes_max is not None and len(encoded) > bytes_max:
        raise EventTooLargeError(where=where, event_bytes_max=bytes_max)
    return encoded, found


def encode_text(text: str) -> bytes:
    return _encoder.encode(text)


def _to_wire(value: Any, depth: int, found: list[Reference]) -> Any:
    kind = cast("type[object]", type(value))
    if kind is str:
        _check_text(value)
        return value
    if kind is dict or kind is list:
        _check_nesting(depth)
        return (_object_to_wire if kind is dict else _array_to_wire)(value, depth, found)
    if kind is int or kind is float:
        _check_number(value)
        return value
    if kind is Reference:
        _check_nesting(depth + _REFERENCE_DEPTH - 1)
        found.append(value)
        return value.to_json()
    if kind is bool or value is None:
        return value
    raise _RefusedError(f"a {kind.__name__} would not come back as what it is")


def _check_nesting(depth: int) -> None:
    if depth > DEPTH_MAX:
        raise _RefusedError(f"it is nested deeper than {DEPTH_MAX}")


def _check_number(value: float) -> None:
    if isinstance(value, int):
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise _RefusedError("an integer does not fit in 64 bits with sign")
    elif not math.isfinite(value):
        raise _RefusedError(f"{value} is not a JSON number")


def _object_to_wire(value: dict[Any, Any], depth: int, found: list[Reference]) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str:
            raise _RefusedError(f"a key is a {type(key).__name__}, not text")
        if not key.isascii():
            _check_text(key)
        if type(item) is str and item.isascii():  # most are, and a call for each costs more
            wire[key] = item
            continue
        try:
            wire[key] = _to_wire(item, depth + 1, found)
        except _RefusedError as refused:
            refused.path.append(key)
            raise
    if len(wire) == 1:
        (key,) = wire
        if key[:1] == "$" and _LOOK_ALIKE.fullmatch(key):
            return {"$" + key: wire[key]}
    return wire


def _array_to_wire(value: list[Any], depth: int, found: list[Reference]) -> list[Any]:
    wire: list[Any] = []
    for index, item in enumerate(value):
        try:
            wire.append(_to_wire(item, depth + 1, found))
        except _RefusedError as refused:
            refused.path.append(str(index))
            raise
    return wire


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _RefusedError("a lone surrogate is not Unicode text") from None


# -- reading -----------------------------------------------------------------------------------


def decode(encoded: bytes) -> Any:
    """What `encode` was given. For its own output only: of JSON from elsewhere much is refused."""
    value = msgspec.json.decode(encoded)
    return from_wire(value) if b"$attach" in encoded else value


def from_wire(value: Any, found: list[Reference] | None = None) -> Any:
    """Put Reference objects and the user's own keys back; changes `value` in place.

    References are added to `found`. Raises BadDataError for an unescaped look-alike that is none.
    """
    if type(value) is dict:
        wire = cast("dict[str, Any]", value)
        if len(wire) == 1:
            (key,) = wire
            if key == KEY:
                return _reference(wire, found)
            if key[:1] == "$" and _ESCAPED.fullmatch(key):
                return {key[1:]: from_wire(wire[key], found)}
        for key, item in wire.items():
            if type(item) is dict or type(item) is list:
                wire[key] = from_wire(item, found)
    elif type(value) is list:
        items = cast("list[Any]", value)
        for index, item in enumerate(items):
            if type(item) is dict or type(item) is list:
                items[index] = from_wire(item, found)
    return cast("Any", value)


def _reference(wire: dict[str, Any], found: list[Reference] | None) -> Reference:
    try:
        reference = Reference.from_json(wire)
    except InvalidReferenceError as error:
        raise BadDataError(f"a reference is not one: {error.reason}") from None
    if found is not None:
        found.append(reference)
    return reference


def check_depth(value: object, depth_max: int = DEPTH_MAX) -> None:
    """Raises BadDataError if `value` is nested deeper than may be written."""
    level: list[Any] = [[value]]
    for _ in range(depth_max + 1):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise BadDataError(f"it is nested deeper than {depth_max}")


def _children(value: Any) -> list[Any]:
    """The arrays and objects directly inside."""
    keyed = cast("dict[str, Any]", value)
    inside: Iterable[Any] = keyed.values() if isinstance(value, dict) else value
    return [item for item in inside if isinstance(item, dict | list)]


def strict_json(raw: bytes, *, depth_max: int = DEPTH_MAX) -> Any:
    """Decode JSON that is not in our own compact form, refusing what JSON leaves open.

    Duplicate keys, NaN, numbers beyond a double or 64 bits, lone surrogates, invalid UTF-8.
    Slow: only for what does not encode back to the same bytes, and for what people write.

    Raises BadDataError, and nothing else.
    """
    try:
        # msgspec refuses lone surrogates and invalid UTF-8, which json lets by.
        check_depth(msgspec.json.decode(raw), depth_max)
        return json.loads(
            raw,
            object_pairs_hook=_unique_pairs,
            parse_constant=_refuse_constant,
            parse_int=_small_integer,
            parse_float=_finite_float,
        )
    except BadDataError:
        raise
    except RecursionError:
        raise BadDataError(f"it is nested deeper than {depth_max}") from None
    except ValueError as error:  # also msgspec.DecodeError, UnicodeDecodeError
        raise BadDataError(_WORDS.get(str(error), str(error))) from None


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise BadDataError("an object has the same key twice")
    return made


def _refuse_constant(text: str) -> NoReturn:
    raise BadDataError(f"{text} is not a JSON number")


def _small_integer(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX + 1 or not INTEGER_MIN <= int(text) <= INTEGER_MAX:
        raise BadDataError("an integer does not fit in 64 bits with sign")
    return int(text)


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadDataError(f"{text[:40]} is not a finite number")
    return value


# -- finding -----------------------------------------------------------------------------------


def references_in(data: object) -> Iterator[tuple[str, Reference]]:
    """Every reference in an event's data with its JSON pointer (RFC 6901), in order."""
    pending: list[tuple[str, Any]] = [("", data)]
    while pending:
        pointer, value = pending.pop()
        if isinstance(value, Reference):
            yield pointer, value
        elif isinstance(value, dict):
            keyed = cast("dict[str, Any]", value)
            pending.extend(
                (f"{pointer}/{_pointer_token(key)}", item) for key, item in reversed(keyed.items())
            )
        elif isinstance(value, list):
            items = list(enumerate(cast("list[Any]", value)))
            pending.extend((f"{pointer}/{index}", item) for index, item in reversed(items))


def _pointer_token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
