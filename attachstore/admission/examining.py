"""Examining a file that is not to be stored: everything admission would say about it."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

from attachstore.admission.contents import DescriptorReader
from attachstore.admission.inspection import Examination, examine
from attachstore.admission.policy import AdmissionPolicy
from attachstore.admission.source import Gatherer, read_file
from attachstore.attachment import Content
from attachstore.digest import Digest, Hasher
from attachstore.disk import Disk, storage_errors
from attachstore.errors import AdmissionError

READ_BYTES_MAX = 256 << 20
"""A file above `bytes_max` is read up to here all the same, to say what else is wrong with it."""

_BUFFER_BYTES = 64 << 10


def examine_file(
    path: Path, policy: AdmissionPolicy, *, declared: str | None = None, name: str | None = None
) -> Examination:
    """What `admit` would say of the file at `path`, with every finding; nothing is stored.

    Blocking. Reads the file once, as attaching it would; a large one goes through a temporary
    file that has no name. A source that cannot be read is a finding too.
    """
    gatherer = Gatherer(_TemporarySpool, max(policy.bytes_max, READ_BYTES_MAX), "file")
    try:
        content = read_file(Disk(), path, gatherer)
    except AdmissionError as error:
        error.where = ascii(str(path))[1:-1]
        return Examination(None, None, None, (error,))
    try:
        return examine(content, policy, declared=declared, name=path.name if name is None else name)
    finally:
        content.close()


class _TemporarySpool:
    """A Spool in a file without a name, in the system's directory for such."""

    def __init__(self) -> None:
        with storage_errors(tempfile.gettempdir()):
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by the content
        self._hasher = Hasher()
        self._size = 0

    def write(self, block: bytes | memoryview) -> None:
        self._hasher.update(block)
        with storage_errors(tempfile.gettempdir()):
            while block:
                written = self._file.write(block) or 0
                self._size += written
                block = memoryview(block)[written:]

    def finish(self) -> Content:
        return _TemporaryContent(self._file, self._size, self._hasher.digest())

    def discard(self) -> None:
        self._file.close()


class _TemporaryContent:
    """Content in such a file; closing it removes it."""

    def __init__(self, file: io.IOBase, size: int, digest: Digest) -> None:
        self._file = file
        self._size = size
        self._digest = digest

    @property
    def digest(self) -> Digest:
        return self._digest

    @property
    def size(self) -> int:
        return self._size

    def head(self, size: int) -> bytes:
        with self.open() as reader:
            return reader.read(size)

    def open(self) -> io.BufferedReader:
        return io.BufferedReader(DescriptorReader(os.dup(self._file.fileno())), _BUFFER_BYTES)

    def close(self) -> None:
        self._file.close()
