"""A decoder's process: python -I -m attachstore.admission.worker SOCKET MEMORY_BYTES CPU_S

Started by `attachstore.admission.pool`. Reads tasks from the socket, answers them one by one, and
ends when the socket does. It can write no file, uses bounded memory and time, and is expected to
die now and then: that is what it is for.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import os
import resource
import socket
import sys
from pathlib import Path

from attachstore.admission import heif, pdf
from attachstore.admission.contents import DescriptorReader
from attachstore.admission.decoding import decode
from attachstore.admission.defect import Defect
from attachstore.admission.libmagic import guess
from attachstore.admission.messages import Answer, Task, policy_of, receive_task, send_answer
from attachstore.admission.pillow import pillow
from attachstore.errors import AttachstoreError, MissingDependencyError

_DESCRIPTORS_MAX = 64


def main(arguments: list[str]) -> None:
    """Serve until the pool closes the socket."""
    descriptor, memory_bytes, cpu_s = (int(argument) for argument in arguments)
    with socket.socket(fileno=descriptor) as sock:
        _preload()
        _limit(memory_bytes)
        send_answer(sock, Answer("ready", os.getpid()))
        while (received := receive_task(sock)) is not None:
            _allow_cpu(cpu_s)
            answer = answer_to(*received)
            send_answer(sock, answer)
            if answer.kind == "memory":
                return  # who knows what is left half-built


def answer_to(task: Task, inline: bytes, descriptor: int | None) -> Answer:
    """Do the work; whatever is raised becomes an answer."""
    try:
        with _opened(inline, descriptor) as reader:
            return _answer(task, reader, inline)
    except Defect as defect:
        return Answer("defect", text=type(defect).__name__, fields={"reason": defect.reason})
    except AttachstoreError as error:
        return Answer("error", text=error.code, fields=dict(vars(error)))
    except OSError as error:
        return Answer("fault", error.errno or 0, os.strerror(error.errno or 0))
    except MemoryError:
        return Answer("memory")
    except Exception as error:  # noqa: BLE001 - hostile bytes; the pool makes an error of it
        return Answer("surprise", text=f"{type(error).__name__}: {str(error)[:200]}")


def _answer(task: Task, reader: io.BufferedIOBase, inline: bytes) -> Answer:
    if task.kind == "frames":
        size = (task.width, task.height)
        return Answer("number", decode(reader, task.media_type, size, policy_of(task.limits)))
    if task.kind == "pages":
        return Answer("number", pdf.count_pages(reader))
    return Answer("text", text=guess(inline or reader.read()))


def _opened(inline: bytes, descriptor: int | None) -> io.BufferedIOBase:
    if descriptor is None:
        return io.BytesIO(inline)
    return io.BufferedReader(DescriptorReader(descriptor), 64 << 10)


def _preload() -> None:
    """Pay for the imports before the first task, not in it."""
    pillow()
    with contextlib.suppress(MissingDependencyError):
        heif.require()
    for name in ("pikepdf", "magic"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _limit(memory_bytes: int) -> None:
    """Memory above what is loaded now; no files, no core dumps."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    total = pages * resource.getpagesize() + memory_bytes
    for which, limit in (
        (resource.RLIMIT_AS, total),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _DESCRIPTORS_MAX),
    ):
        _, hard = resource.getrlimit(which)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (allowed, allowed))


def _allow_cpu(cpu_s: int) -> None:
    """The kernel ends this process (SIGXCPU) when the task has used its time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(used.ru_utime + used.ru_stime) + cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    main(sys.argv[1:])
