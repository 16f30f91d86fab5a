"""Conversion: a store's session logs, all of them, moved from one medium to another."""

from attachstore.conversion.asynchronous import convert_sessions
from attachstore.conversion.report import ConversionProgress, ConversionReport, ConversionStep
from attachstore.conversion.work import convert

__all__ = [
    "ConversionProgress",
    "ConversionReport",
    "ConversionStep",
    "convert",
    "convert_sessions",
]
