"""docs/reference/errors.md names every error there is, and none that is not."""

from __future__ import annotations

import re

import pytest

from attachstore import errors
from attachstore.cli.exit_status import status_of
from attachstore.errors import AttachstoreError
from tests.docs.pages import DOCS, headings, section

PAGE = DOCS / "reference" / "errors.md"


def known() -> dict[str, type[AttachstoreError]]:
    """Every class with a code of its own, wherever it is defined."""
    waiting: list[type[AttachstoreError]] = [AttachstoreError]
    found: dict[str, type[AttachstoreError]] = {}
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        if "code" in vars(error):
            found[error.code] = error
    return found


def text_of(code: str) -> str:
    return section(PAGE, code)


def test_every_code_has_a_heading_and_every_heading_an_error() -> None:
    found = headings(PAGE, 3)

    assert sorted(found) == sorted(known())
    assert len(found) == len(set(found))


@pytest.mark.parametrize("code", sorted(known()))
def test_a_code_is_explained(code: str) -> None:
    """What it means, its class, its exit status, and how to mend it."""
    error = known()[code]
    text = text_of(code)
    bare = error.__new__(error)

    assert f"`{error.__name__}`" in text
    assert f"exit {int(status_of(bare))}" in text
    assert re.search(r"^\*\*Mend:\*\* \S", text, re.MULTILINE)


@pytest.mark.parametrize("code", sorted(known()))
def test_a_code_stands_under_its_group(code: str) -> None:
    """The group says what a caller can do; the page is ordered by that question."""
    groups = [name for name in vars(errors) if name.endswith("Error") and _is_group(name)]
    nearest = next(base.__name__ for base in known()[code].__mro__ if base.__name__ in groups)
    text = PAGE.read_text()
    before = text[: re.search(rf"^### `{code}`$", text, re.MULTILINE).start()]  # pyright: ignore[reportOptionalMemberAccess] - the test above

    assert re.findall(r"^## .*`(\w+)`", before, re.MULTILINE)[-1] == nearest


def _is_group(name: str) -> bool:
    return "code" not in vars(getattr(errors, name))
