"""docs/reference/api.md has an entry for every public name, with the parameters it really has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import attachstore
from attachstore.sessions.session import Session
from attachstore.sessions.sessions import Sessions
from attachstore.store import Store
from tests.docs.pages import DOCS, headings

PAGE = DOCS / "reference" / "api.md"
CLASSES = {"Store": Store, "Sessions": Sessions, "Session": Session}
# Public between modules only.
INTERNAL = {"Sessions.close_all": "for Store.close"}


def methods(shown: str, owner: type) -> dict[str, Callable[..., Any]]:
    """The public methods of a class; attributes and properties are described in prose."""
    return {
        f"{shown}.{name}": member
        for name, member in inspect.getmembers(owner, callable)
        if not name.startswith("_") and f"{shown}.{name}" not in INTERNAL
    }


METHODS = {
    name: method
    for shown, owner in CLASSES.items()
    for name, method in methods(shown, owner).items()
}


def parameters(method: Callable[..., Any]) -> str:
    """As the page shows them: names and defaults, without types."""
    signature = inspect.signature(method)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    return str(inspect.Signature(bare))


def test_every_public_name_has_an_entry() -> None:
    found = {re.split(r"[.(]", heading)[0] for level in (3, 4) for heading in headings(PAGE, level)}

    assert set(attachstore.__all__) <= found


def test_every_method_has_an_entry_and_every_entry_a_method() -> None:
    found = [heading.partition("(")[0] for heading in headings(PAGE, 4)]

    assert sorted(found) == sorted(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_an_entry_shows_the_parameters(name: str) -> None:
    """Names, order and defaults: what a caller types."""
    shown = [heading for heading in headings(PAGE, 4) if heading.partition("(")[0] == name]

    assert shown == [name + parameters(METHODS[name])]


def test_the_blocking_store_has_the_same_names() -> None:
    """So that one page serves both."""
    from attachstore import blocking

    for shown, owner in CLASSES.items():
        assert methods(shown, getattr(blocking, shown)).keys() >= methods(shown, owner).keys()
