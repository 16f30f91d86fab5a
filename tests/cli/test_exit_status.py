"""Exit statuses are an interface: every error has its own, whoever adds the next error."""

from __future__ import annotations

import inspect

import pytest

from attachstore import errors
from attachstore.cli.exit_status import ExitStatus, status_of, status_of_items, worst

EXPECTED = {
    "invalid-reference": 2,
    "ambiguous-reference": 2,
    "invalid-session-id": 2,
    "object-missing": 3,
    "session-missing": 3,
    "dangling-reference": 3,
    "store-missing": 3,
    "object-corrupt": 4,
    "log-damaged": 4,
    "store-layout": 4,
    "header-mismatch": 5,
    "source-missing": 6,
    "truncated-image": 6,
    "invalid-event": 6,
    "session-exists": 7,
    "session-busy": 7,
    "sequence-conflict": 7,
    "log-poisoned": 7,
    "storage-full": 1,
    "storage-read-only": 1,
    "store-foreign": 1,
    "invalid-configuration": 1,
}


def every_error() -> dict[str, type[errors.AttachstoreError]]:
    classes = [found for _, found in inspect.getmembers(errors, inspect.isclass)]
    return {
        found.code: found
        for found in classes
        if issubclass(found, errors.AttachstoreError) and "code" in vars(found)
    }


def blank(code: str) -> errors.AttachstoreError:
    """An error of that code without its fields: its class decides."""
    kind = every_error()[code]
    return kind.__new__(kind)


@pytest.mark.parametrize("code", EXPECTED)
def test_a_code_has_its_status(code: str) -> None:
    assert status_of(blank(code)) == EXPECTED[code]


def test_every_error_has_a_status_of_its_group() -> None:
    groups = {
        errors.RejectedError: {2, 6},
        errors.NotFoundError: {2, 3},
        errors.IntegrityError: {4, 5},
        errors.ConflictError: {7},
        errors.UnavailableError: {1},
    }
    for code in every_error():
        error = blank(code)
        allowed = next(statuses for group, statuses in groups.items() if isinstance(error, group))

        assert status_of(error) in allowed, code


def test_of_several_items_some_done_is_8_and_none_done_is_the_first_failures() -> None:
    missing = errors.SourceMissingError(where="a")
    full = errors.StorageFullError(where="b", reason="no space")

    assert status_of_items(2, []) == ExitStatus.DONE
    assert status_of_items(1, [missing]) == ExitStatus.PARTLY_DONE
    assert status_of_items(0, [missing, full]) == ExitStatus.REJECTED
    assert status_of_items(0, [full, missing]) == ExitStatus.FAILED


def test_of_several_kinds_of_fault_corrupt_comes_before_missing_before_mismatch() -> None:
    every = {ExitStatus.HEADER_MISMATCH, ExitStatus.NOT_FOUND, ExitStatus.CORRUPT}

    assert worst(every) == ExitStatus.CORRUPT
    assert worst(every - {ExitStatus.CORRUPT}) == ExitStatus.NOT_FOUND
    assert worst({ExitStatus.HEADER_MISMATCH}) == ExitStatus.HEADER_MISMATCH
    assert worst(set()) == ExitStatus.DONE
