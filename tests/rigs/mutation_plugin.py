"""A pytest plugin: the run's package lacks the call that ATTACHSTORE_SKIPPED_SITE names.

    ATTACHSTORE_SKIPPED_SITE="lock.py acquire lock#1" python -m pytest -p tests.rigs.mutation_plugin

With "probe" nothing is left out; the sites that each test comes by are added to the file that
ATTACHSTORE_SITES_REACHED names, one line of JSON for each test. A test that hangs without the
call fails, so that a run of many says which one it was.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.rigs import mutation

_SITE = os.environ[mutation.SITE_VARIABLE]
_HANGS_AFTER_S = 60

mutation.install(_SITE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write down what the test has come by."""
    mutation.hits.clear()
    started = time.monotonic()
    result = yield
    if _SITE == mutation.PROBE:
        reached = [item.nodeid, time.monotonic() - started, sorted(mutation.hits)]
        with Path(os.environ[mutation.REACHED_VARIABLE]).open("a") as file:
            file.write(json.dumps(reached) + "\n")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Let a test that hangs fail."""
    del item
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(_HANGS_AFTER_S)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def _give_up(*_: object) -> None:
    pytest.fail("it hangs")
