"""Session to readback: steps with verified attachments, an export, a page. Offline, read-only.

The page has much to load, so its names are in `attachstore.replay.page` only.
"""

from attachstore.replay.export import ExportReport, ExportWriter, export
from attachstore.replay.steps import (
    Outcome,
    Resolved,
    Resolver,
    Step,
    check_at,
    replay,
    replay_deferred,
    strict,
)

__all__ = [
    "ExportReport",
    "ExportWriter",
    "Outcome",
    "Resolved",
    "Resolver",
    "Step",
    "check_at",
    "export",
    "replay",
    "replay_deferred",
    "strict",
]
