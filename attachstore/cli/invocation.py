"""Invocation: one run of the command, from its global options to the open store."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from attachstore.cli.output import Output, visible

if TYPE_CHECKING:  # importing these takes longer than `--help` may
    from attachstore.cli.progress import Meter
    from attachstore.config import Settings
    from attachstore.store import Store

R = TypeVar("R")


class Invocation:
    """What every command is handed: the output, the settings, a way to the store."""

    def __init__(self) -> None:
        self.out = Output()
        self.flags: dict[str, object] = {}
        """Settings given on the command line, by key."""
        self._meter: Meter | None = None

    def settings(self) -> Settings:
        """Raises InvalidConfigurationError."""
        from attachstore.config import load_settings

        return load_settings(self.flags)

    @contextlib.asynccontextmanager
    async def reading(self, *, decode_in_process: bool = True) -> AsyncGenerator[Store]:
        """The store, for looking only: nothing is made, locked or changed."""
        async with self._open(
            create=False, read_only=True, decode_in_process=decode_in_process
        ) as store:
            yield store

    @contextlib.asynccontextmanager
    async def writing(
        self, *, create: bool = True, decode_in_process: bool = True
    ) -> AsyncGenerator[Store]:
        """The store, for writing; made on first use unless `create` is false."""
        async with self._open(
            create=create, read_only=False, decode_in_process=decode_in_process
        ) as store:
            yield store

    @contextlib.asynccontextmanager
    async def _open(
        self, *, create: bool, read_only: bool, decode_in_process: bool
    ) -> AsyncGenerator[Store]:
        from attachstore.cli.progress import MeteredDisk, MeteredWeakDisk
        from attachstore.store import Store

        settings = self.settings()
        disk = None
        if self.out.shows_progress and not read_only:
            disk = MeteredWeakDisk() if settings.weak_durability else MeteredDisk()
            self._meter = disk.meter
        async with Store.open(
            settings.store,
            disk=disk,
            policy=settings.policy(),
            create=create,
            read_only=read_only,
            weak_durability=settings.weak_durability,
            event_bytes_max=settings.event_bytes_max,
            sessions=settings.sessions,
            # Most commands soon end: no worker would pay for its start, and no intake for its file.
            decode_in_process=decode_in_process,
            intake=False,
        ) as store:
            yield store

    @contextlib.asynccontextmanager
    async def other(self, place: str, *, read_only: bool = False) -> AsyncGenerator[Store]:
        """A second store, which must be there, wherever it keeps its sessions."""
        from attachstore.store import Store

        settings = self.settings()
        async with Store.open(
            place,
            policy=settings.policy(),
            create=False,
            read_only=read_only,
            weak_durability=settings.weak_durability,
            event_bytes_max=settings.event_bytes_max,
            decode_in_process=True,
            intake=False,
        ) as store:
            yield store

    def waiting(self, label: str) -> AbstractAsyncContextManager[None]:
        """Show on a terminal that something takes its time."""
        from attachstore.cli.progress import waiting

        return waiting(self.out, label)

    def attaching(self, file: str) -> AbstractAsyncContextManager[None]:
        """Show on a terminal how far the copy of a file has come, and how fast."""
        from attachstore.cli.progress import waiting

        try:
            size_bytes = os.stat(file).st_size or None  # noqa: PTH116 - /proc says 0
        except (OSError, ValueError):
            size_bytes = None  # whether it can be attached is for others to say
        return waiting(
            self.out, f"attaching {visible(file)}", size_bytes=size_bytes, meter=self._meter
        )

    def run(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run `work` to its end; Ctrl-C cancels it, waits for its clean-up, and is raised."""
        import asyncio

        with self._showing_log():
            return asyncio.run(work())

    @contextlib.contextmanager
    def _showing_log(self) -> Generator[None]:
        """Let the library's warnings (healed, quarantined, repaired) reach the user."""
        logger = logging.getLogger("attachstore")
        handler, propagate = _Messages(self.out), logger.propagate
        logger.addHandler(handler)
        logger.propagate = False
        try:
            yield
        finally:  # whoever runs commands in a process of its own has its logging back
            logger.removeHandler(handler)
            logger.propagate = propagate


class _Messages(logging.Handler):
    def __init__(self, out: Output) -> None:
        super().__init__(logging.WARNING)
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        self._out.warning(record.getMessage())


pass_invocation = click.make_pass_decorator(Invocation)
