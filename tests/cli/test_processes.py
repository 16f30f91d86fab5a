"""The installed command among other processes: pipes, signals, full and closed outputs."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO

import pytest

from attachstore.digest import Digest
from tests.cli.running import Cli

LARGE_BYTES = 12 << 20
WAIT_S = 60
INTERRUPTED = b"attachstore: interrupted: what was acknowledged is kept\n"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """More than a pipe, and more than what is streamed from memory."""
    path = tmp_path / "large.txt"
    path.write_bytes(b"0123456789abcde\n" * (LARGE_BYTES // 16))
    return path


def start(
    cli: Cli,
    *arguments: object,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
    through: str = 'exec "$@"',
) -> subprocess.Popen[bytes]:
    """In a process group of its own, as a shell with job control does it.

    `through` is what that shell runs, the command being "$@".
    """
    return subprocess.Popen(
        ["sh", "-c", through, "sh", *cli.command(*arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=cli.environ,
        start_new_session=True,
    )


def leftovers(store: Path) -> list[Path]:
    """Temporary files of writers."""
    return list((store / "staging").iterdir())


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.01)


# -- pipes -------------------------------------------------------------------------------------


def test_bytes_go_through_pipes_both_ways(cli: Cli, large: Path) -> None:
    """`cat large | attachstore put - | ...; attachstore get ... | cmp - large`."""
    put = cli.process("put", "-", "--name", "large.txt", "--json", stdin=large.read_bytes())
    reference = put.record["reference"]

    got = cli.process("get", json.dumps(reference))

    assert put.record["source"] == "-"
    assert (got.status, got.err) == (0, b"")
    assert got.out == large.read_bytes()


def test_a_pipe_that_does_not_block_gets_every_byte(cli: Cli, large: Path) -> None:
    """Node makes pipes so, and a child that shares the description cannot know."""
    cli.run("put", large)
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    process = start(cli, "get", Digest.of(large.read_bytes()).hex, stdout=theirs)
    os.close(theirs)
    with open(ours, "rb") as output:  # noqa: PTH123 - a descriptor
        until(lambda: select.select([output], [], [], 0)[0], "the first bytes arrive")
        time.sleep(0.2)  # for the pipe to fill up

        assert output.read() == large.read_bytes()
    assert process.wait(WAIT_S) == 0
    _close(process)


def test_standard_input_may_be_a_file(cli: Cli, photo: Path) -> None:
    with photo.open("rb") as file:
        process = start(cli, "put", "-", stdin=file)
        out, err = process.communicate(timeout=WAIT_S)

    assert (process.returncode, err) == (0, b"")
    assert out.decode().split()[0] == str(Digest.of(photo.read_bytes()))


def test_standard_input_over_the_limit_is_not_read_to_its_end(cli: Cli) -> None:
    """A stream that never ends is refused at the limit."""
    process = start(cli, "put", "-", "--bytes-max", "2MiB", stdin=subprocess.PIPE)
    assert process.stdin is not None
    with pytest.raises(BrokenPipeError):
        process.stdin.writelines(itertools.repeat(b"x" * (1 << 16)))

    assert process.wait(WAIT_S) == 6
    assert process.stderr is not None
    assert process.stderr.read().startswith(b"attachstore: too-many-bytes: ")
    assert leftovers(cli.store) == []
    _close(process)


def test_a_reader_that_goes_away_ends_the_command_quietly(cli: Cli, large: Path) -> None:
    cli.run("put", large)
    process = start(cli, "get", Digest.of(large.read_bytes()).hex)
    assert process.stdout is not None
    assert process.stdout.read(16) == b"0123456789abcde\n"
    process.stdout.close()

    assert process.wait(WAIT_S) == 1
    assert process.stderr is not None
    assert process.stderr.read() == b""
    _close(process)


@pytest.mark.parametrize("command", [["ls"], ["--help"], ["session", "list"], ["get", "DIGEST"]])
def test_a_full_standard_output_is_an_error(cli: Cli, note: Path, command: list[str]) -> None:
    """/dev/full refuses every byte, whoever writes and however much."""
    cli.run("put", note, "--session", "s-1")
    digest = Digest.of(note.read_bytes()).hex
    with Path("/dev/full").open("wb") as full:
        process = start(
            cli, *[digest if word == "DIGEST" else word for word in command], stdout=full
        )
        _, err = process.communicate(timeout=WAIT_S)

    assert process.returncode == 1
    assert err.startswith(
        b"attachstore: storage-full: standard output could not be written: No space left on device"
    )
    assert b"Traceback" not in err
    assert b"Exception ignored" not in err


def test_a_closed_standard_output_is_an_error(cli: Cli, note: Path) -> None:
    cli.run("put", note)
    process = start(cli, "ls", through='exec "$@" >&-')
    _, err = process.communicate(timeout=WAIT_S)

    assert process.returncode == 1
    assert err.startswith(
        b"attachstore: storage-io: standard output could not be written: it is closed. "
    )


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"], ids=["full", "closed"])
def test_work_whose_result_cannot_be_printed_is_done_and_said_to_be(
    cli: Cli, note: Path, photo: Path, redirection: str
) -> None:
    """Whoever repeated an append that was durable would have the event twice."""
    through = f'exec "$@" {redirection}'
    append = start(
        cli, "--json", "session", "append", "s-1", stdin=subprocess.PIPE, through=through
    )
    _, append_err = append.communicate(b"{}", timeout=WAIT_S)
    put = start(cli, "put", note, photo, through=through)
    _, put_err = put.communicate(timeout=WAIT_S)

    assert (append.returncode, put.returncode) == (1, 1)
    error = json.loads(append_err)["error"]
    assert (error["code"], error["where"]) == (
        "storage-full" if "full" in redirection else "storage-io",
        "standard output",
    )
    assert "done and kept: look before you repeat it" in error["message"]
    assert cli.run("--json", "session", "show", "s-1").record["head_seq"] == 1
    assert f"1 file not tried: {photo}".encode() in put_err
    assert cli.run("ls").text.split()[0] == str(Digest.of(note.read_bytes()))


def test_with_all_descriptors_closed_no_file_of_the_store_takes_their_numbers(
    cli: Cli, tmp_path: Path
) -> None:
    """Else the first file opened would be descriptor 2, and get a library's warning into it."""
    code = (
        "import os; from attachstore.cli.main import main; main(['--version'])\n"
        f"os._exit(os.open({str(tmp_path)!r}, os.O_RDONLY))"
    )
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code],
        env=cli.environ,
        check=False,
        timeout=WAIT_S,
    )

    assert ran.returncode > 2


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["session", "append", "s-1"], 6, "source-unreadable"),
        (["put", "-", "--type", "text/plain"], 6, "source-unreadable"),
        (["session", "delete", "s-1"], 2, "usage"),
    ],
    ids=["append", "put", "delete"],
)
def test_a_closed_standard_input_is_no_empty_one(
    cli: Cli, arguments: list[str], status: int, code: str
) -> None:
    process = start(cli, *arguments, through='exec "$@" <&-')
    _, err = process.communicate(timeout=WAIT_S)

    assert process.returncode == status
    assert err.decode().startswith(f"attachstore: {code}: ")


def test_a_closed_standard_error_is_no_reason_to_fail(cli: Cli, note: Path) -> None:
    process = start(cli, "put", note, note / "x", through='exec "$@" 2>&-')
    out, _ = process.communicate(timeout=WAIT_S)

    assert process.returncode == 8
    assert out.decode().split()[0] == str(Digest.of(note.read_bytes()))


# -- signals -----------------------------------------------------------------------------------


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Ctrl-C: SIGINT to the whole group. Returns status and standard error."""
    os.killpg(process.pid, signal.SIGINT)
    status = process.wait(WAIT_S)
    assert process.stderr is not None
    err = process.stderr.read()
    _close(process)
    return status, err


def test_ctrl_c_while_reading_standard_input_leaves_nothing(cli: Cli) -> None:
    """The other side of the pipe neither writes nor closes: only the signal can end it."""
    cli.run("init")
    process = start(cli, "put", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"x" * (3 << 20))
    process.stdin.flush()
    until(lambda: _drained(process), "it reads what is there")

    status, err = interrupted(process)

    assert (status, err) == (130, INTERRUPTED)
    assert leftovers(cli.store) == []
    assert cli.run("ls").out == b""


def test_ctrl_c_while_a_stalled_reader_blocks_the_output(cli: Cli, large: Path) -> None:
    """`attachstore get ... | less`: the write hangs until somebody reads, or interrupts."""
    cli.run("put", large)
    process = start(cli, "get", Digest.of(large.read_bytes()).hex)
    output = process.stdout
    assert output is not None
    until(lambda: select.select([output], [], [], 0)[0], "the first bytes arrive")
    time.sleep(0.2)  # for the pipe to fill up; less would only make the test easier to pass

    status, err = interrupted(process)

    assert (status, err) == (130, INTERRUPTED)


def test_ctrl_c_while_waiting_for_an_events_data(cli: Cli) -> None:
    cli.run("init")
    process = start(cli, "session", "append", "s-1", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b'{"text":')
    process.stdin.flush()
    until(lambda: _drained(process), "it reads what is there")

    status, _ = interrupted(process)

    assert status == 130
    assert cli.run("session", "list").out == b""


# -- media -------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_leaves_nothing(cli: Cli, note: Path, large: Path) -> None:
    """A limit on the size of files stands in for the disk: the same error at the same calls."""
    cli.run("put", note, "--session", "s-1")

    # 8192 blocks are 4 or 8 MiB, depending on the shell.
    limited = 'ulimit -f 8192; exec "$@"'
    process = start(cli, "put", large, note, "--session", "s-1", through=limited)
    out, err = process.communicate(timeout=WAIT_S)

    assert (process.returncode, out) == (1, b"")
    assert err.startswith(b"attachstore: storage-full: ")
    assert f"1 file not tried: {note}".encode() in err
    assert leftovers(cli.store) == []
    assert cli.run("--json", "session", "show", "s-1").record["head_seq"] == 1
    assert cli.run("scan").text.endswith("\nclean\n")


@pytest.fixture
def small_disk(cli: Cli, tmp_path: Path) -> Generator[Path]:
    """A file system of 4 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    cli.store = place / "store"
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.root
def test_a_disk_that_is_really_full(cli: Cli, small_disk: Path, note: Path, large: Path) -> None:
    cli.run("put", note, "--session", "s-1")

    ran = cli.run("put", large, "--session", "s-1")

    assert ran.status == 1
    assert ran.message.startswith("attachstore: storage-full: ")
    assert leftovers(small_disk / "store") == []
    assert cli.run("replay", "s-1").status == 0


@pytest.mark.root
def test_a_disk_that_is_mounted_read_only(
    cli: Cli, small_disk: Path, note: Path, photo: Path
) -> None:
    cli.run("put", note, "--session", "s-1")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    written = cli.run("put", photo)
    appended = cli.run("session", "append", "s-1", stdin=b"{}")

    assert (written.status, appended.status) == (1, 1)
    assert written.message.startswith("attachstore: storage-read-only: ")
    assert appended.message.startswith("attachstore: storage-read-only: ")
    for command in (["replay", "s-1"], ["scan"], ["ls"], ["session", "verify"]):
        assert cli.run(*command).status == 0, command


# -- another process ---------------------------------------------------------------------------


def test_a_session_that_another_process_writes_is_busy(cli: Cli, note: Path) -> None:
    cli.run("put", note, "--session", "s-1")
    lock = cli.store / "locks" / "s-1"
    with lock.open("a+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        put = cli.run("put", note, "--session", "s-1")
        deleted = cli.run("session", "delete", "--yes", "s-1")
        read = cli.run("replay", "s-1")

    assert (put.status, deleted.status, read.status) == (7, 7, 0)
    assert put.message.startswith("attachstore: session-busy: ")


# -- terminals ---------------------------------------------------------------------------------


def on_terminal(cli: Cli, *arguments: object, typed: bytes = b"") -> tuple[int, str]:
    """Run with all three streams on a terminal of 80 columns; returns status and what it shows."""
    parent, child = pty.openpty()
    try:
        environ = {**cli.environ, "TERM": "xterm", "COLUMNS": "80"}
        environ.pop("NO_COLOR", None)
        process = subprocess.Popen(
            cli.command(*arguments), stdin=child, stdout=child, stderr=child, env=environ
        )
        os.close(child)
        if typed:
            os.write(parent, typed)
        shown = bytearray()
        with contextlib.suppress(OSError):  # EIO: the other side has been closed
            while block := os.read(parent, 1 << 16):
                shown += block
        return process.wait(WAIT_S), shown.decode()
    finally:
        os.close(parent)


def test_delete_asks_on_a_terminal(cli: Cli, note: Path) -> None:
    cli.run("put", note, "--session", "s-1")

    refused = on_terminal(cli, "session", "delete", "s-1", typed=b"n\n")
    assert refused[0] == 1
    assert "Delete the log of s-1?" in refused[1]
    assert len(cli.run("session", "list").text.splitlines()) == 1

    assert on_terminal(cli, "session", "delete", "s-1", typed=b"y\n")[0] == 0
    assert cli.run("session", "list").out == b""


def test_a_picture_is_not_poured_onto_a_terminal(cli: Cli, photo: Path, note: Path) -> None:
    cli.run("put", photo, note)

    refused = on_terminal(cli, "get", Digest.of(photo.read_bytes()).hex)
    shown = on_terminal(cli, "get", Digest.of(note.read_bytes()).hex)

    assert refused[0] == 2
    assert "use -o FILE or a pipe" in refused[1]
    assert shown == (0, note.read_text().replace("\n", "\r\n"))


def test_a_terminal_gets_titles_and_rounded_sizes(cli: Cli, large: Path) -> None:
    cli.run("put", large, "--session", "s-1")

    assert "12.0 MiB" in on_terminal(cli, "ls")[1]
    listed = on_terminal(cli, "session", "list")[1]
    assert "session" in listed
    assert "last event" in listed
    assert "s-1" in listed


def _drained(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdin is not None
    unread = fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))
    return int.from_bytes(unread, sys.byteorder) == 0


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
