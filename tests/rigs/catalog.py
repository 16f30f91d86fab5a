"""All rigs, by the number that the page gives them, and how much each must try at full scale."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass

from tests.rigs.figures import Figures, Scale


@dataclass(frozen=True, slots=True)
class Rig:
    """One module that has `run(scale) -> Figures`."""

    number: int
    module: str
    at_least: int
    """Of what `Figures.counted` counts."""

    def run(self, scale: Scale) -> Figures:
        """Run it; a rig that raises has failed, and keeps no other from running."""
        start = time.monotonic()
        try:
            return importlib.import_module(f"tests.rigs.{self.module}").run(scale)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is in the report
            seconds = time.monotonic() - start
            return Figures(self.number, self.module, 0, "", [f"it raised {error!r}"], seconds)


RIGS = (
    Rig(1, "rig_calls", 20_000),
    Rig(2, "rig_injected", 3_000),
    Rig(3, "rig_lost_writes", 20_000),
    Rig(4, "rig_kill_then_cut", 50_000),
    Rig(5, "rig_power_cuts", 800),
    Rig(6, "rig_block_writes", 2_000),
    Rig(7, "rig_device_errors", 32),
    Rig(8, "rig_interruptions", 15_000),
    Rig(9, "rig_natural_faults", 60),
    Rig(10, "rig_inputs", 2_000),
    Rig(11, "rig_mutants", 200),
    Rig(12, "rig_calibration", 2),
    Rig(13, "rig_soak", 1),
)
