"""Integrity of a store: does everything the session logs rely on still hold?"""

from attachstore.integrity.progress import Phase, Progress
from attachstore.integrity.report import Finding, Kind, ScanReport, Severity, Use
from attachstore.integrity.scan import ProgressCallback, scan

__all__ = [
    "Finding",
    "Kind",
    "Phase",
    "Progress",
    "ProgressCallback",
    "ScanReport",
    "Severity",
    "Use",
    "scan",
]
