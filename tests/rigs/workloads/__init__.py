"""What the rigs do to a store while they break what lies below it.

Every workload is listed in WORKLOADS under its name. To add one, write a `start` and a `part`
(objects.py, sessions.py), list it there, and run `python -m tests.rigs`: each rig takes it up.
"""

from __future__ import annotations

from tests.rigs.workloads.objects import OBJECT_WORKLOADS
from tests.rigs.workloads.scans import SCAN_WORKLOADS
from tests.rigs.workloads.sessions import LONG_SESSION_WORKLOADS, SESSION_WORKLOADS
from tests.rigs.workloads.workload import Workload

__all__ = ["ALL_WORKLOADS", "LONG_WORKLOADS", "WORKLOADS", "Workload"]

WORKLOADS = {
    workload.name: workload for workload in (*OBJECT_WORKLOADS, *SCAN_WORKLOADS, *SESSION_WORKLOADS)
}

LONG_WORKLOADS = {workload.name: workload for workload in LONG_SESSION_WORKLOADS}
"""Those that do the same for each of a store's 256 shards; a rig need not look at every time."""

ALL_WORKLOADS = {**WORKLOADS, **LONG_WORKLOADS}
