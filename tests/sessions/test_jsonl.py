"""The JSONL medium keeps the contract, and its files are what the reference says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.session_damage import SessionDamageConformance
from tests.conformance.session_medium import SessionMediumConformance
from tests.sessions.places import JsonlPlace


@pytest.fixture
def place(tmp_path: Path) -> JsonlPlace:
    return JsonlPlace(tmp_path)


class TestJsonlMedium(SessionMediumConformance):
    pass


class TestDamageInJsonl(SessionDamageConformance):
    pass
