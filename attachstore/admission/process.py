"""One worker process: started, asked, and ended. `attachstore.admission.pool` has many."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import msgspec

from attachstore.admission.messages import Answer, Task, receive_answer, send_task
from attachstore.threads import CancelFlag

_START_S_MAX = 60
_POLL_S = 0.05


class Died(Exception):  # noqa: N818 - an observation, not yet an error
    """The worker is gone, or as good as: why, and how often its task may be tried in all."""

    def __init__(self, reason: str, attempts: int, *, by_signal: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.attempts = attempts
        self.by_signal = by_signal


class CannotStartError(Exception):
    """There is no Python here that could run a worker."""


class WorkerProcess:
    """One process and the socket to it."""

    def __init__(self, memory_bytes_max: int, cpu_s_max: int) -> None:
        self._sock, theirs = socket.socketpair()
        self.tasks = 0
        arguments = (str(theirs.fileno()), str(memory_bytes_max), str(cpu_s_max))
        command = (sys.executable, "-I", "-m", "attachstore.admission.worker", *arguments)
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    command,
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # codecs write there
                    start_new_session=True,  # Ctrl-C is for the host
                    cwd="/",
                )
        except BaseException:
            self._sock.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Raises CannotStartError; Died, if it was killed before it could say anything."""
        try:
            answer = self._receive(time.monotonic() + _START_S_MAX, None)
        except Died as death:
            if death.by_signal:
                raise
            raise CannotStartError(death.reason) from None
        if answer.kind != "ready":
            raise CannotStartError(answer.kind)

    def ask(
        self,
        task: Task,
        inline: bytes,
        descriptor: int | None,
        wall_s: float,
        cancel: CancelFlag | None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Answer:
        """Raises Died, and Cancelled; the worker is of no use then.

        `meanwhile` is called when the worker has its task; an answer that came by then counts,
        however long that took.
        """
        deadline_s = time.monotonic() + wall_s
        self.tasks += 1
        self._sock.settimeout(wall_s)
        try:
            send_task(self._sock, task, inline, descriptor)
        except OSError as error:
            raise self._death() from error
        if meanwhile is not None:
            meanwhile()
        return self._receive(deadline_s, cancel)

    def _receive(self, deadline_s: float, cancel: CancelFlag | None) -> Answer:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        while not poll.poll(_POLL_S * 1000):
            if cancel is not None:
                cancel.check()
            if time.monotonic() > deadline_s:
                raise Died("it took too long", 1)
        try:
            return receive_answer(self._sock)
        except (OSError, EOFError) as error:
            raise self._death() from error
        except (ValueError, msgspec.DecodeError) as error:
            raise Died(f"it gave no answer that makes sense ({error})", 2) from error

    def _death(self) -> Died:
        """Why the process has gone: it ended by itself or was killed a moment ago."""
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return Died("it closed its socket", 2)
        if status == -signal.SIGXCPU:
            return Died("it used too much processor time", 1)
        if status == -signal.SIGKILL:  # somebody else's doing, the kernel's for lack of memory too
            return Died("it was killed", 3, by_signal=True)
        if status < 0:
            return Died(f"it crashed ({signal.Signals(-status).name})", 2, by_signal=True)
        return Died(f"it ended with status {status}", 2)

    def end(self) -> None:
        """Kill it if it lives, and wait for it."""
        self._sock.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """In a forked child: let go of the parent's worker without touching it."""
        self._sock.close()
        self._process.returncode = 0  # or Popen warns that it is still running
