"""The in-memory medium keeps the contract."""

from __future__ import annotations

import pytest

from tests.conformance.session_contract import SessionContractConformance
from tests.conformance.session_damage import SessionDamageConformance
from tests.conformance.session_kills import SessionKillConformance
from tests.conformance.session_medium import SessionMediumConformance
from tests.conformance.session_suffix import SessionSuffixConformance
from tests.sessions.places import MemoryPlace


class TestMemoryMedium(SessionMediumConformance):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()


class TestDamageInMemory(SessionDamageConformance):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()


class TestSuffixInMemory(SessionSuffixConformance):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()


class TestContractInMemory(SessionContractConformance):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()


class TestKillsInMemory(SessionKillConformance):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()
