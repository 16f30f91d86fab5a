"""What the pool and its workers say to each other: tasks one way, answers the other.

A message is its length in 4 bytes, then msgpack. Nothing is pickled: an answer comes from a
process that has just read hostile bytes, and is taken apart by its schema before it is believed.
The bytes of a task follow it on the socket, or come as a descriptor beside it.
"""

from __future__ import annotations

import socket
import struct
from typing import Literal

import msgspec

from attachstore.admission.policy import AdmissionPolicy

_LENGTH = struct.Struct("<L")
_MESSAGE_BYTES_MAX = 1 << 20
INLINE_BYTES_MAX = 256 << 10
"""Up to here bytes go through the socket; a descriptor costs two system calls more."""


class Task(msgspec.Struct, frozen=True, array_like=True):
    """One question. `inline_bytes` follow; -1: the bytes are in the descriptor that comes along."""

    kind: Literal["frames", "pages", "guess"]
    inline_bytes: int
    media_type: str = ""
    width: int = 0
    height: int = 0
    limits: dict[str, int] = {}


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """`number` and `text` as the kind needs them; `fields` are those of an error."""

    kind: Literal["ready", "number", "text", "defect", "error", "fault", "memory", "surprise"]
    number: int = 0
    text: str = ""
    fields: dict[str, str | int | None] = {}


_LIMITS = tuple(
    name for name in AdmissionPolicy.__dataclass_fields__ if name.endswith("_max")
)  # all that a decoder asks of a policy
_tasks = msgspec.msgpack.Decoder(Task)
_answers = msgspec.msgpack.Decoder(Answer)
_encoder = msgspec.msgpack.Encoder()


def limits_of(policy: AdmissionPolicy, media_type: str) -> dict[str, int]:
    """The limits for a picture of this type, whatever kind of policy they come from."""
    limits: dict[str, int] = {name: getattr(policy, name) for name in _LIMITS}
    return {**limits, "frames_max": policy.frames_max_of(media_type)}


def policy_of(limits: dict[str, int]) -> AdmissionPolicy:
    return AdmissionPolicy(**limits)  # type: ignore[arg-type] - the names are those of integers


def send_task(sock: socket.socket, task: Task, inline: bytes, descriptor: int | None) -> None:
    """Raises OSError when the other side is gone or does not read."""
    body = _encoder.encode(task)
    head = _LENGTH.pack(len(body)) + body
    if descriptor is None:
        sock.sendall(head + inline if len(inline) < INLINE_BYTES_MAX else head)
        if len(inline) >= INLINE_BYTES_MAX:
            sock.sendall(inline)
        return
    sent = socket.send_fds(sock, [head], [descriptor])
    sock.sendall(head[sent:])


def receive_task(sock: socket.socket) -> tuple[Task, bytes, int | None] | None:
    """The next task, its bytes and its descriptor; None when the pool has gone."""
    head, descriptors, _, _ = socket.recv_fds(sock, _LENGTH.size, 1)
    descriptor = descriptors[0] if descriptors else None
    if not head:
        return None
    head += _receive(sock, _LENGTH.size - len(head))
    task = _tasks.decode(_receive(sock, _LENGTH.unpack(head)[0]))
    inline = _receive(sock, task.inline_bytes) if task.inline_bytes > 0 else b""
    return task, inline, descriptor


def send_answer(sock: socket.socket, answer: Answer) -> None:
    body = _encoder.encode(answer)
    sock.sendall(_LENGTH.pack(len(body)) + body)


def receive_answer(sock: socket.socket) -> Answer:
    """Raises EOFError when the worker has gone, ValueError for what no worker of ours says."""
    (length,) = _LENGTH.unpack(_receive(sock, _LENGTH.size))
    if length > _MESSAGE_BYTES_MAX:
        message = f"an answer of {length} bytes"
        raise ValueError(message)
    return _answers.decode(_receive(sock, length))


def _receive(sock: socket.socket, size_bytes: int) -> bytes:
    parts: list[bytes] = []
    while size_bytes:
        part = sock.recv(min(size_bytes, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size_bytes -= len(part)
    return b"".join(parts)
