"""Session to readback: steps with verified attachments, an export, a page. Offline, read-only."""

from attachstore.replay.export import ExportReport, ExportWriter, export
from attachstore.replay.page import PageReport, PageWriter, write_page
from attachstore.replay.steps import Outcome, Resolved, Resolver, Step, check_at, replay, strict

__all__ = [
    "ExportReport",
    "ExportWriter",
    "Outcome",
    "PageReport",
    "PageWriter",
    "Resolved",
    "Resolver",
    "Step",
    "check_at",
    "export",
    "replay",
    "strict",
    "write_page",
]
