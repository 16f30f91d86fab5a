"""HeldProcess: a forked process whose every call that changes a file system asks here first.

The kernel's seccomp user notification stops the calling thread at the entry of the call, whoever
makes it: Python, SQLite, any library. While it waits the rig may do what the world does to
computers (cut the power, make the disk fail), and then lets the call go on or answers it itself.
Nothing is preloaded into the process and none of its code is changed.

`write` is not held: stored data are written with `pwrite`, and what is left are the journal's
records and the event loop's wake-ups.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_S = 60.0
"""How long a held process may be busy between two calls."""

# Linux, x86-64: arch/x86/entry/syscalls/syscall_64.tbl.
HELD = {
    18: "pwrite64",
    296: "pwritev",
    328: "pwritev2",
    74: "fsync",
    75: "fdatasync",
    277: "sync_file_range",
    306: "syncfs",
    77: "ftruncate",
    285: "fallocate",
    326: "copy_file_range",
    82: "rename",
    264: "renameat",
    316: "renameat2",
    86: "link",
    265: "linkat",
    87: "unlink",
    263: "unlinkat",
    83: "mkdir",
    258: "mkdirat",
    84: "rmdir",
    91: "fchmod",
}
SYNCS = frozenset({"fsync", "fdatasync"})
_OPENAT = 257  # held where it may make a file
_MAKES_A_FILE = os.O_CREAT | 0o20000000  # the bit that only O_TMPFILE has
_SECCOMP, _PIDFD_GETFD = 317, 438

# From the kernel's include/uapi/linux/filter.h and seccomp.h.
_LOAD, _IF_EQUAL, _IF_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_SET_FILTER, _NEW_LISTENER = 1, 8
_NUMBER_AT, _THIRD_ARGUMENT_AT = 0, 32
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST = struct.Struct("QIIiIQ6Q")
_ANSWER = struct.Struct("QqiI")
_LET_IT_GO_ON = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


@dataclass(frozen=True)
class Call:
    """One call that waits."""

    name: str
    identifier: int
    arguments: tuple[int, ...]


def unavailable() -> str | None:
    """Why no process can be held here, or None."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "only the calls of Linux on x86-64 are known"
    try:
        with HeldProcess(lambda: os.rmdir("/nowhere/at/all")) as probe:
            for call in probe.calls():
                probe.go_on(call)
    except OSError as error:
        return f"the kernel does not hold calls for us: {error.strerror}"
    return None


class HeldProcess:
    """Runs `work` in a child. Use as a context manager: leaving it kills what still runs.

    `status` is the exit status (negative: the signal) once `calls` has ended or `kill` was
    called; `complaint` is the traceback of an exception that left `work`.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._said = os.memfd_create("complaint", os.MFD_CLOEXEC)
        ours, theirs = socket.socketpair()
        with warnings.catch_warnings():
            # Python 3.12 warns of forks beside threads. The child runs what the rig gives it.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _be_the_child(work, theirs, self._said)
        theirs.close()
        self.status: int | None = None
        try:
            with ours:
                message, descriptors, *_ = socket.recv_fds(ours, 64, 1)
        except OSError:
            self.kill()
            raise
        if not descriptors:
            self.kill()
            number = int(message or b"0")
            raise OSError(number, os.strerror(number), "seccomp")
        self._listener = descriptors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        os.close(self._listener)
        os.close(self._said)

    def calls(self) -> Iterator[Call]:
        """Yield each call that waits, until the process ends. Each must be answered.

        With several threads several calls may wait: they come one by one.
        """
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            ready = poll.poll(PATIENCE_S * 1000)
            if not ready:
                raise TimeoutError(f"process {self.pid} made no call for {PATIENCE_S:.0f} s")
            if not ready[0][1] & select.POLLIN:
                self._reap()
                return
            request = bytearray(_REQUEST.size)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, request)
            except OSError as error:
                if error.errno in {errno.ENOENT, errno.EINTR}:  # it has just been killed
                    continue
                raise
            identifier, _, _, number, _, _, *arguments = _REQUEST.unpack(request)
            yield Call(HELD.get(number, "openat"), identifier, tuple(arguments))

    def go_on(self, call: Call) -> None:
        """Let the kernel do the call."""
        self._send(call, 0, 0, _LET_IT_GO_ON)

    def answer(self, call: Call, error: int) -> None:
        """Let the call return with this errno (0: with success) without being done."""
        self._send(call, 0, -error, 0)

    def _send(self, call: Call, value: int, error: int, flags: int) -> None:
        with contextlib.suppress(FileNotFoundError):  # its thread is gone
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(call.identifier, value, error, flags))

    def borrow(self, descriptor: int) -> int:
        """A descriptor for the very open file that the process knows as `descriptor`."""
        process = os.pidfd_open(self.pid)
        try:
            borrowed = _libc.syscall(_PIDFD_GETFD, process, descriptor, 0)
        finally:
            os.close(process)
        if borrowed < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "pidfd_getfd")
        return borrowed

    def stop(self) -> None:
        """Let no thread come out of the kernel any more.

        A call that is under way goes on, but nobody will see its result. After this the world may
        end: nothing that was promised later can be blamed on it.
        """
        os.kill(self.pid, signal.SIGSTOP)
        until_s = time.monotonic() + PATIENCE_S
        while any(state not in "TDZX" for state in _states(self.pid)):
            if time.monotonic() > until_s:
                raise TimeoutError(f"process {self.pid} does not stop")
            time.sleep(0.0005)

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()

    @property
    def complaint(self) -> str:
        size_bytes = os.fstat(self._said).st_size
        return os.pread(self._said, size_bytes, 0).decode()

    def _reap(self) -> None:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _states(pid: int) -> Iterator[str]:
    """The state letter of each thread. D is in the kernel and stops before it comes out."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            yield (thread / "stat").read_text().rpartition(")")[2].split()[0]


def _be_the_child(work: Callable[[], object], rig: socket.socket, said: int) -> None:
    status = 1
    try:
        listener = _hold_this_process()
        if listener < 0:
            rig.send(str(-listener).encode())
            return
        socket.send_fds(rig, [b"listener"], [listener])
        os.close(listener)
        rig.close()
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it must not go on in the rig's code
        os.write(said, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _hold_this_process() -> int:
    """From here on our calls ask the listener that is returned; a negative errno if they cannot."""
    numbers = sorted(HELD)
    program: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _NUMBER_AT)]
    # The last three instructions are: is a file made?, allow, notify.
    for position, number in enumerate(numbers):
        to_notify = len(numbers) - position - 1 + 4
        program.append((_IF_EQUAL, to_notify, 0, number))
    program += [
        (_IF_EQUAL, 0, 2, _OPENAT),
        (_LOAD, 0, 0, _THIRD_ARGUMENT_AT),
        (_IF_BITS, 1, 0, _MAKES_A_FILE),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    described = _Program(len(program), ctypes.addressof(code))
    listener = _libc.syscall(_SECCOMP, _SET_FILTER, _NEW_LISTENER, ctypes.byref(described))
    return listener if listener >= 0 else -ctypes.get_errno()
