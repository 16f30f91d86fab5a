"""AttachstoreError and its groups: what a caller can do about a failure.

    RejectedError       the caller's input is at fault      do not retry
      AdmissionError      ... the bytes, their name, their source
      EventError          ... an event or a session id
    NotFoundError       the name is at fault                do not retry
    IntegrityError      stored bytes are at fault           repair, then retry
    ConflictError       another writer was first            read again, then retry
    UnavailableError    a medium did not answer             retry later

A wrong call (bad type, closed store) is a bug in the caller: it raises TypeError or
ValueError and has no place here.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator, Iterator, Mapping
from typing import Any, ClassVar, dataclass_transform


class _Fields(Mapping[str, object]):
    """What a message template may name: the error's fields and properties."""

    def __init__(self, error: AttachstoreError) -> None:
        self._error = error

    def __getitem__(self, key: str) -> object:
        return getattr(self._error, key)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self._error))

    def __len__(self) -> int:
        return len(vars(self._error))


@dataclass_transform(kw_only_default=True, eq_default=False)
class _FieldsAsKeywords(Exception):  # noqa: N818 - never raised itself
    """Makes a dataclass of every subclass, so that an error is declared by its fields alone."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(eq=False, kw_only=True, repr=False)(cls)


class AttachstoreError(_FieldsAsKeywords):
    """Base class: says what happened, where, and how to mend it.

    `code` is stable: the command line, the service and docs/reference/errors.md use it. `what`
    and `mend` are templates over the error's own fields, which are strings and numbers, so
    that every error survives pickling and can be printed as JSON.
    """

    code: ClassVar[str]
    what: ClassVar[str]
    mend: ClassVar[str]

    where: str
    """The path, session or source concerned."""
    index: int | None = None
    """Position of the failing item, where several were given at once (`attach_many`)."""

    def __str__(self) -> str:
        fields = _Fields(self)
        return f"{self.what.format_map(fields)} ({self.where}). {self.mend.format_map(fields)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # BaseException would rebuild from positional arguments; ours are all keywords.
        return _rebuild, (type(self), vars(self))

    def details(self) -> dict[str, object]:
        """The error as JSON-ready data: code, message and every field."""
        fields = {name: value for name, value in vars(self).items() if value is not None}
        return {"code": self.code, "message": str(self), **fields}


def _rebuild(cls: type[AttachstoreError], fields: dict[str, object]) -> AttachstoreError:
    error = cls.__new__(cls)
    vars(error).update(fields)
    return error


class RejectedError(AttachstoreError):
    """The caller's input is at fault; the same call fails again."""


class AdmissionError(RejectedError):
    """The offered bytes, their name or their source may not become an attachment."""


class EventError(RejectedError):
    """An event or a session id may not enter a log."""


class NotFoundError(AttachstoreError):
    """The name leads nowhere."""


class IntegrityError(AttachstoreError):
    """Stored bytes are not what was stored."""


class ConflictError(AttachstoreError):
    """Another writer was first."""


class UnavailableError(AttachstoreError):
    """A medium, or something this machine should have, did not answer."""


@contextlib.contextmanager
def indexed(index: int) -> Generator[None]:
    """Errors from inside carry the position of their item."""
    try:
        yield
    except AttachstoreError as error:
        error.index = index
        raise
