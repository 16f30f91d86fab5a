"""ProcessPool: decoders in processes of their own, which may crash, hang or eat memory.

Invariants

 (1) A worker is used by one thread at a time: it is in `_idle`, or one thread has it.
 (2) A worker that was not asked to the end (time-out, cancellation, error) is killed, never used
     again: an answer that comes late must not become the answer to the next question.
 (3) Every worker is waited for after it was killed: no zombies. `close` leaves none.
 (4) What dies is started again when it is next needed; a dead worker costs at most its own task,
     and that only if the task kills its successors too.

Workers are started by exec, never by fork or `multiprocessing`: those run the host's `__main__`
again or inherit its locks. See docs/decisions/0015-workers-are-started-by-exec.md.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec

from attachstore.admission import defect as defects
from attachstore.admission.decoders import IN_PROCESS, Decoders, DecodersClosedError
from attachstore.admission.messages import (
    Answer,
    Task,
    limits_of,
)
from attachstore.admission.payload import payload
from attachstore.admission.policy import AdmissionPolicy
from attachstore.admission.process import CannotStartError, Died, WorkerProcess
from attachstore.attachment import Content
from attachstore.condition import Condition
from attachstore.cores import usable_cores
from attachstore.errors import (
    AttachstoreError,
    DecoderFailedError,
    DimensionLimitError,
    MissingDependencyError,
    ResourceExhaustedError,
    TooManyFramesError,
    TooManyPixelsError,
)
from attachstore.threads import CancelFlag

PROCESSES_MAX = 4
MEMORY_BYTES_MAX = 2 << 30
CPU_S_MAX = 60
WALL_S_MAX = 120
TASKS_MAX = 10_000
"""A worker is replaced after that many: whatever a library leaks is bounded."""

_POLL_S = 0.05
_STARTS_MAX = 10
_PLACE = "decoder"
_log = logging.getLogger("attachstore")
_pools: weakref.WeakSet[ProcessPool] = weakref.WeakSet()
_DEFECTS = {
    kind.__name__: kind for kind in (defects.Cut, defects.Broken, defects.Excess, defects.Locked)
}
_ERRORS: dict[str, type[AttachstoreError]] = {
    kind.code: kind
    for kind in (
        TooManyPixelsError,
        DimensionLimitError,
        TooManyFramesError,
        DecoderFailedError,
        MissingDependencyError,
    )
}


class _Questions:
    """The questions of `Decoders` as tasks, however they are asked."""

    def frames(
        self,
        content: Content,
        media_type: str,
        size: tuple[int, int],
        policy: AdmissionPolicy,
        cancel: CancelFlag | None,
    ) -> int:
        task = Task("frames", 0, media_type, size[0], size[1], limits_of(policy, media_type))
        answer = self._ask(task, content, media_type, cancel)
        if answer is None:
            return IN_PROCESS.frames(content, media_type, size, policy, cancel)
        return answer.number

    def pages(self, content: Content, cancel: CancelFlag | None) -> int:
        answer = self._ask(Task("pages", 0), content, "application/pdf", cancel)
        return IN_PROCESS.pages(content, cancel) if answer is None else answer.number

    def guess(self, front: bytes, cancel: CancelFlag | None) -> str:
        answer = self._ask(Task("guess", 0), front, "unknown bytes", cancel)
        return IN_PROCESS.guess(front, cancel) if answer is None else answer.text

    def _ask(
        self, task: Task, source: Content | bytes, media_type: str, cancel: CancelFlag | None
    ) -> Answer | None:
        """A worker's answer; None where there can be no workers. Raises as Decoders do."""
        raise NotImplementedError


class ProcessPool(_Questions):
    """Decoders (see `Decoders`) in a bounded number of worker processes, started when needed.

    Limits are for one task: memory above what a fresh worker takes, processor time, and time by
    the clock. A task that breaks one, or crashes its worker twice, is a DecoderFailedError; other
    tasks do not notice. Where no worker can be started (the interpreter is embedded or frozen),
    everything is done in this process, which is said once in the log.

    Thread-safe. After `os.fork()` the child's copy is dead.
    """

    def __init__(
        self,
        *,
        processes_max: int | None = None,
        memory_bytes_max: int = MEMORY_BYTES_MAX,
        cpu_s_max: int = CPU_S_MAX,
        wall_s_max: float = WALL_S_MAX,
    ) -> None:
        self._processes_max = processes_max or min(PROCESSES_MAX, usable_cores())
        self._memory_bytes_max = memory_bytes_max
        self._cpu_s_max = cpu_s_max
        self._wall_s_max = wall_s_max
        self._changed = Condition()
        self._idle: list[WorkerProcess] = []
        self._workers: set[WorkerProcess] = set()
        self._count = 0
        """Workers there are or are being started."""
        self._ever_started = False
        self._in_process = not _is_python(sys.executable)
        self._closed = False
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _end_all, self._workers)
        _pools.add(self)
        if self._in_process:
            _say_in_process(f"{sys.executable or 'sys.executable'} is no Python interpreter")

    def while_waiting(self, work: Callable[[], None]) -> Decoders:
        return _WhileWaiting(self, work)

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the workers there are now."""
        with self._changed:
            return tuple(worker.pid for worker in self._workers)

    def close(self) -> None:
        """End all workers. Safe to repeat. Tasks that are running fail."""
        with self._changed:
            self._closed = True
            self._idle.clear()
            self._changed.notify_all()
        if self._pid == os.getpid():
            self._finalizer()

    def forget(self) -> None:
        """In a forked child: the workers are the parent's."""
        self._closed = True
        self._finalizer.detach()
        for worker in self._workers:
            worker.forget()
        self._workers.clear()
        self._idle.clear()

    def _ask(
        self, task: Task, source: Content | bytes, media_type: str, cancel: CancelFlag | None
    ) -> Answer | None:
        return self.ask(task, source, media_type, cancel)

    def ask(
        self,
        task: Task,
        source: Content | bytes,
        media_type: str,
        cancel: CancelFlag | None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Answer | None:
        """A worker's answer; None where there can be no workers. Raises as Decoders do."""
        inline, descriptor = payload(source)
        task = msgspec.structs.replace(
            task, inline_bytes=-1 if descriptor is not None else len(inline)
        )
        try:
            attempt = 0
            while True:
                attempt += 1
                worker = self._take(cancel)
                if worker is None:
                    return None
                try:
                    answer = self._asked(worker, task, (inline, descriptor), cancel, meanwhile)
                except Died as death:
                    self._check_open()
                    _log.warning("a decoder of %s died: %s", media_type, death.reason)
                    if attempt >= death.attempts:
                        raise DecoderFailedError(
                            where=_PLACE, media_type=media_type, reason=death.reason
                        ) from None
                    continue
                return _checked(answer, media_type, self._memory_bytes_max)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _asked(
        self,
        worker: WorkerProcess,
        task: Task,
        source: tuple[bytes, int | None],
        cancel: CancelFlag | None,
        meanwhile: Callable[[], None] | None,
    ) -> Answer:
        try:
            answer = worker.ask(task, *source, self._wall_s_max, cancel, meanwhile)
        except BaseException:
            self._drop(worker)
            raise
        if answer.kind in {"memory", "ready"} or worker.tasks >= TASKS_MAX:
            self._drop(worker)
        else:
            self._give_back(worker)
        return answer

    def _take(self, cancel: CancelFlag | None) -> WorkerProcess | None:
        """An idle worker, or a new one, or the next to become idle; None: there are none here."""
        with self._changed:
            while True:
                self._check_open()
                if self._in_process:
                    return None
                if self._idle:
                    return self._idle.pop()  # the one used last is the warmest
                if self._count < self._processes_max:
                    self._count += 1
                    break
                self._changed.wait(_POLL_S)
                if cancel is not None:
                    cancel.check()
        try:
            return self._start()
        except BaseException:
            self._uncount()
            raise

    def _start(self) -> WorkerProcess | None:
        """A new worker; None, and never again, where the first one does not get off the ground."""
        reason = ""
        for _ in range(_STARTS_MAX):
            try:
                worker = self._started()
            except Died as death:  # killed while it was loading: not its fault
                reason = death.reason
                self._check_open()
                continue
            except CannotStartError as error:
                self._check_open()
                reason = str(error)
                if self._ever_started:
                    continue
                self._go_on_in_process(reason)
                return None
            self._ever_started = True
            return worker
        raise ResourceExhaustedError(where=_PLACE, resource="processes", reason=reason)

    def _started(self) -> WorkerProcess:
        """Raises Died and CannotStartError; ResourceExhaustedError."""
        try:
            worker = WorkerProcess(self._memory_bytes_max, self._cpu_s_max)
        except (FileNotFoundError, PermissionError) as error:
            raise CannotStartError(str(error)) from error
        except OSError as error:
            raise ResourceExhaustedError(
                where=_PLACE, resource="processes", reason=str(error)
            ) from error
        with self._changed:
            self._workers.add(worker)
        try:
            self._check_open()
            worker.wait_until_ready()
        except BaseException:
            with self._changed:
                self._workers.discard(worker)
            worker.end()
            raise
        return worker

    def _go_on_in_process(self, reason: str) -> None:
        if not self._in_process:
            _say_in_process(f"a worker process does not start: {reason}")
        self._in_process = True
        self._uncount()

    def _give_back(self, worker: WorkerProcess) -> None:
        with self._changed:
            if not self._closed:
                self._idle.append(worker)
                self._changed.notify()

    def _drop(self, worker: WorkerProcess) -> None:
        with self._changed:
            self._workers.discard(worker)
        worker.end()
        self._uncount()

    def _uncount(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify()

    def _check_open(self) -> None:
        if self._closed:
            message = "the decoders are closed"
            raise DecodersClosedError(message)


class _WhileWaiting(_Questions):
    """A pool whose first question leaves its caller time for something else."""

    def __init__(self, pool: ProcessPool, work: Callable[[], None]) -> None:
        self._pool = pool
        self._work: Callable[[], None] | None = work

    def while_waiting(self, work: Callable[[], None]) -> Decoders:
        return _WhileWaiting(self._pool, work)

    def _ask(
        self, task: Task, source: Content | bytes, media_type: str, cancel: CancelFlag | None
    ) -> Answer | None:
        return self._pool.ask(task, source, media_type, cancel, self._once)

    def _once(self) -> None:
        work, self._work = self._work, None
        if work is not None:  # a question whose worker died is asked again
            work()


def _checked(answer: Answer, media_type: str, memory_bytes_max: int) -> Answer:
    """The answer if it is one; else what it says went wrong is raised."""
    if answer.kind in {"number", "text"}:
        return answer
    if answer.kind == "defect" and answer.text in _DEFECTS:
        raise _DEFECTS[answer.text](str(answer.fields.get("reason", "")))
    if answer.kind == "error" and answer.text in _ERRORS:
        raise _ERRORS[answer.text](**answer.fields)  # type: ignore[arg-type] - its own fields
    if answer.kind == "fault":
        raise OSError(answer.number, answer.text)
    reason = answer.text or f"it gave no answer that makes sense ({answer.kind})"
    if answer.kind == "memory":
        reason = f"it needs more than {memory_bytes_max} bytes of memory"
    raise DecoderFailedError(where=_PLACE, media_type=media_type, reason=reason)


def _is_python(executable: str) -> bool:
    """Whether it can be asked to run a module; a frozen or embedding program cannot."""
    name = Path(executable).name.lower() if executable else ""
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


@functools.cache  # once in a process, however many stores it opens
def _say_in_process(reason: str) -> None:
    _log.warning("pictures and documents are decoded in this process: %s", reason)


def _end_all(workers: set[WorkerProcess]) -> None:
    for worker in list(workers):
        worker.end()
    workers.clear()


def _forget_in_child() -> None:
    for pool in list(_pools):
        pool.forget()


os.register_at_fork(after_in_child=_forget_in_child)
