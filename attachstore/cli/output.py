"""Output: what a command says, to people and to programs.

Rules

 (1) Standard output carries data and nothing else; messages, errors and progress go to standard
     error. With --json both carry JSON only: one compact object per line.
 (2) In a pipe nothing is wrapped, shortened or coloured, and a record is one line.
 (3) Text that comes from users (names, ids, types) is escaped before it reaches a terminal or a
     line: a control character in a file name must not move the cursor or fake a record. JSON
     has the exact value.
 (4) A reader that goes away ends the command quietly. Any other failure to write standard output
     is an error of its own: the work that was to be reported is done by then.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import select
import shutil
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TextIO

from attachstore.errors import AttachstoreError

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_KIB = 1024
_WRITE_BYTES = 64 << 10  # most results are less, and come in one write
_WHOLE = 100  # from here on a decimal is noise
_JOINER = "\u200d"  # an invisible part of many emoji


class ReaderGoneError(Exception):
    """Whoever read our standard output closed it."""


class OutputFailedError(Exception):
    """Standard output could not be written; what was done before that is done, and kept."""

    def __init__(self, reason: str, code: str = "storage-io") -> None:
        """`code`: that of the same failure in a store."""
        super().__init__(
            f"standard output could not be written: {reason}. What the command did before that is "
            "done and kept: look before you repeat it."
        )
        self.code = code
        self.reason = reason


class Output:
    """The two streams of one run of the command."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    @property
    def on_terminal(self) -> bool:
        """Whether standard output is a terminal, and for people."""
        stream = _standard("stdout")
        return not self.as_json and stream is not None and stream.isatty()

    @property
    def shows_progress(self) -> bool:
        """Whether somebody sits at a terminal and reads standard error."""
        stream = _standard("stderr")
        return not self.as_json and stream is not None and stream.isatty()

    # -- data ------------------------------------------------------------------------------

    def record(self, value: Mapping[str, object], text: str | Callable[[], str]) -> None:
        """Print one result: `value` as a line of JSON, or `text` for people."""
        if self.as_json:
            self.write(compact(value) + b"\n")
        else:
            self.line(text if isinstance(text, str) else text())

    def pieces(self, parts: Iterable[bytes]) -> None:
        """Print one result as a line of JSON that may be too long to be held as a whole."""
        held = bytearray()
        for part in parts:
            held += part
            if len(held) >= _WRITE_BYTES:
                self.write(memoryview(held))
                held = bytearray()
        self.write(memoryview(held + b"\n"))

    def line(self, text: str = "") -> None:
        """Print a line for people on standard output."""
        self.write(text.encode("utf-8", "surrogateescape") + b"\n")

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print rows: a table with titles on a terminal, else columns two spaces apart."""
        if not self.on_terminal:
            for row in rows:
                self.line("  ".join(row))
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for title in titles:
            table.add_column(title, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.render(table)

    def render(self, renderable: object, *, soft_wrap: bool = False) -> None:
        """Print something of rich's on the terminal; with `soft_wrap` lines break where they do."""
        from rich.console import Console

        console = Console(file=sys.stdout, highlight=False)
        with console.capture() as captured:
            console.print(renderable, soft_wrap=soft_wrap)
        self.write(captured.get().encode("utf-8", "surrogateescape"))

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Print names and values, one pair a line, the values aligned."""
        shown = list(pairs)
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self.line(f"{name:<{width}}  {value}")

    def styled(self, *parts: tuple[str, str]) -> None:
        """Print a line of (text, style) parts; only a terminal is shown the styles."""
        if not self.on_terminal:
            self.line("".join(text for text, _ in parts))
            return
        from rich.text import Text

        self.render(Text.assemble(*parts), soft_wrap=True)

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None elsewhere, where no line has an end."""
        return shutil.get_terminal_size().columns if self.on_terminal else None

    def write(self, data: bytes | memoryview) -> None:
        """Write to standard output, at once: whoever reads a pipe sees each record as it is made.

        Raises ReaderGoneError, or OutputFailedError.
        """
        with _interruptible(), _reader_may_go():
            _write_all(data)

    # -- messages --------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Say something on standard error that is not an error."""
        self._say({"note": text}, f"attachstore: {text}")

    def hint(self, text: str) -> None:
        """As `note`, for people at a terminal only: scripts did not ask."""
        if self.shows_progress:
            self.note(text)

    def report(self, value: Mapping[str, object]) -> None:
        """Say something to programs only, while standard output carries an object's bytes."""
        if self.as_json:
            self._say(value, "")

    def warning(self, text: str) -> None:
        self._say({"warning": text}, f"attachstore: warning: {text}")

    def error(self, code: str, message: str, details: Mapping[str, object] | None = None) -> None:
        """Report a failure: `attachstore: <code>: <message>`."""
        fields = {"code": code, "message": message, **(details or {})}
        self._say({"error": fields}, f"attachstore: {code}: {message}")

    def failure(self, error: AttachstoreError, **context: str) -> None:
        """Report one of the package's own errors, with its fields in JSON."""
        self.error(error.code, str(error), {**error.details(), **context})

    def _say(self, value: Mapping[str, object], text: str) -> None:
        stream = _standard("stderr")
        if stream is None:
            return
        data = compact(value) if self.as_json else visible(text).encode("utf-8", "backslashreplace")
        with contextlib.suppress(OSError, ValueError):  # nobody listens: nothing left to say
            stream.buffer.write(data + b"\n")
            stream.flush()


def _write_all(data: bytes | memoryview) -> None:
    stream = _standard("stdout")
    if stream is None:
        raise OutputFailedError("it is closed")
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:  # a stream in memory
        stream.buffer.write(data)
        return
    rest = memoryview(data)
    while rest:  # a signal makes a write short
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # whoever shares our pipe has made it non-blocking
            select.select([], [descriptor], [])


def _standard(name: str) -> TextIO | None:
    """`sys.stdout` or `sys.stderr`; None if it was closed before Python started."""
    return getattr(sys, name)


@contextlib.contextmanager
def _reader_may_go() -> Generator[None]:
    """Turn a failure to write standard output into what ends the command."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGoneError from None
    except OSError as error:
        from attachstore.disk import unavailable

        number = error.errno or 0
        reason = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
        raise OutputFailedError(reason, unavailable(error, "").code) from error


@contextlib.contextmanager
def _interruptible() -> Generator[None]:
    """Let Ctrl-C end a write that a stalled reader blocks.

    asyncio's own handler asks the running task to stop, which a task blocked in write() never
    hears: after EINTR Python repeats the call.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def compact(value: object) -> bytes:
    """One line of JSON in UTF-8; bytes of a path that are no UTF-8 come out as \\udcXX."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def visible(text: str) -> str:
    """`text` with everything that could move a cursor or break a line written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if _is_harmless(char) else _escaped(char) for char in text)


def _is_harmless(char: str) -> bool:
    # "Zs" are the spaces: macOS puts a narrow one into the names of its screenshots.
    return char.isprintable() or char == _JOINER or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def human_size(size_bytes: int) -> str:
    """A size for people: 117 B, 1.5 KiB, 120 MiB."""
    if size_bytes < _KIB:
        return f"{size_bytes} B"
    power = min((size_bytes.bit_length() - 1) // 10, len(_UNITS))
    value, unit = size_bytes / _KIB**power, _UNITS[power - 1]
    return f"{value:.0f} {unit}" if value >= _WHOLE else f"{value:.1f} {unit}"


def dimensions(width: int | None, height: int | None) -> str:
    """`640x480`, or `-` for what has no pixels."""
    return "-" if width is None or height is None else f"{width}x{height}"


def plural(count: int, noun: str) -> str:
    """`1 object`, `2 objects`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
