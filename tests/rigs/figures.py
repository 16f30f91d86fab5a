"""What a rig reports, and how much of it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Scale:
    """`ci`: a sample that fits into a test run. Else the whole, as `make proof` runs it."""

    ci: bool

    def pick(self, ci: int, proof: int) -> int:
        """The number for this scale."""
        return ci if self.ci else proof


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run of one rig came to."""

    rig: int
    """Its number in docs/reliability.md."""
    name: str
    counted: int
    """How many `unit` were tried."""
    unit: str
    """"runs", "states", "cuts", ..."""
    violations: list[str]
    seconds: float
    """On the clock, not of the processor."""
    notes: tuple[str, ...] = ()
    """Further figures, one short sentence each, for the table's last column."""
    not_run: str = ""
    """Why the rig does not run on this machine, in one line; then nothing was counted."""
    details: dict[str, int] = field(default_factory=dict[str, int])
    """Counts by workload, by fault, ...; not shown in the table."""
