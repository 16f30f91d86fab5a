"""Errors say what, where, how to mend, and survive the way between processes."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle
from typing import Any

import pytest

from attachstore import errors
from attachstore.errors import AttachstoreError


def concrete() -> list[type[AttachstoreError]]:
    return [
        error
        for _, error in inspect.getmembers(errors, inspect.isclass)
        if issubclass(error, AttachstoreError) and "code" in vars(error)
    ]


def example(error: type[AttachstoreError]) -> AttachstoreError:
    """An instance with a telling value in every required field."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(error):
        if field.default is dataclasses.MISSING:
            kind = str(field.type)
            values[field.name] = (
                7 if kind == "int" else (("f", "x", "y"),) if "tuple" in kind else f"<{field.name}>"
            )
    return error(**values)


@pytest.mark.parametrize("error", concrete(), ids=lambda error: error.code)
def test_every_error_names_its_place_and_survives_pickling(error: type[AttachstoreError]) -> None:
    """Decoders live in other processes: an error that cannot be unpickled kills its pool."""
    made = example(error)

    back = pickle.loads(pickle.dumps(made))

    assert (type(back), str(back), vars(back)) == (error, str(made), vars(made))
    assert "<where>" in str(made)
    assert "{" not in str(made)
    assert json.loads(json.dumps(made.details()))["code"] == error.code


def test_codes_are_unique_and_written_with_dashes() -> None:
    codes = [error.code for error in concrete()]

    assert len(set(codes)) == len(codes)
    assert all(code == code.lower() and " " not in code and "_" not in code for code in codes)


def test_every_error_is_exported_under_its_name() -> None:
    assert {error.__name__ for error in concrete()} <= set(errors.__all__)
