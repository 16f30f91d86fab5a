"""Reading: a database's connection, borrowed for one call."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Protocol

from attachstore.sessions.sqlite_errors import FAILURES, translated
from attachstore.sessions.sqlite_snapshot import Snapshot


class Lender(Protocol):
    """Who has connections that write nothing."""

    @property
    def path(self) -> Path: ...

    def borrow(self) -> sqlite3.Connection: ...

    def give_back(self, connection: sqlite3.Connection) -> None: ...


class Reading:
    """`with Reading(database) as connection`. A class, because a listing enters thousands."""

    __slots__ = ("_connection", "_database")

    def __init__(self, database: Lender) -> None:
        self._database = database

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._connection = self._database.borrow()
        except FAILURES as error:
            raise translated(error, str(self._database.path)) from error
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(self._connection, Snapshot):
            self._connection.check()
        if isinstance(error, FAILURES):
            self._connection.close()
            raise translated(error, str(self._database.path)) from error
        self._database.give_back(self._connection)
