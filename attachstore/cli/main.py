"""`attachstore`: the commands, the global options, and what becomes of every failure."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from attachstore.cli.command import CommandIndex, SettingOption, json_option
from attachstore.cli.invocation import Invocation
from attachstore.cli.output import Output, OutputFailedError, ReaderGoneError

INDEX = {
    "init": ("attachstore.cli.init", "Create a store."),
    "put": ("attachstore.cli.put", "Attach files; print their references."),
    "check": ("attachstore.cli.check", "Say what would be let in, and store nothing."),
    "get": ("attachstore.cli.get", "Write out verified bytes."),
    "stat": ("attachstore.cli.stat", "Show an object and who refers to it, or the store."),
    "ls": ("attachstore.cli.ls", "List the objects."),
    "session": ("attachstore.cli.session", "List, show, append to, fork, verify session logs."),
    "replay": ("attachstore.cli.replay", "Read a session back and verify its attachments."),
    "scan": ("attachstore.cli.scan", "Check every object and every log."),
    "demo": ("attachstore.cli.demo", "Run the whole line on sample files."),
    "completion": ("attachstore.cli.completion", "Print a shell's completion script."),
}
"""Each command's module and its line in `attachstore --help`."""

_HELP = """Content-addressed attachments, and the session logs that refer to them.

What a session log refers to is there, whole, unchanged and decodable; if it is not, you are told
exactly what, where, and how to mend it.
"""

_EPILOG = """A REF is a digest (blake3:<64 hex>), a unique prefix of at least 6 hex digits, or a
reference as JSON. Exit statuses: 0 done, 1 failed, 2 usage, 3 not found, 4 corrupt, 5 header
mismatch, 6 rejected, 7 busy or conflict, 8 only some items succeeded, 130 interrupted.
"""

VARIABLE = "_ATTACHSTORE_COMPLETE"
"""What the scripts of `attachstore completion` set when they ask for words."""

_STANDARD_DESCRIPTORS = (0, 1, 2)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        ctx.ensure_object(Invocation).out.line(f"attachstore {version('attachstore')}")
        ctx.exit()


root = CommandIndex(
    name="attachstore",
    index=INDEX,
    help=_HELP,
    epilog=_EPILOG,
    params=[
        SettingOption("store"),
        SettingOption("weak_durability"),
        json_option(),
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Show the version and exit.",
        ),
    ],
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status.

    `arguments` are those after the program's name, by default this process's. Everything that
    can go wrong on purpose becomes a line on standard error and a status; a bug is a traceback.
    """
    _occupy_standard_descriptors()
    if VARIABLE in os.environ:
        return shell_complete(root, {}, "attachstore", VARIABLE, os.environ[VARIABLE])
    given = list(sys.argv[1:] if arguments is None else arguments)
    invocation = Invocation()
    # Decided before click has parsed anything, for the errors of the parsing itself.
    invocation.out.as_json = "--json" in given
    try:
        return _run(given, invocation)
    except ReaderGoneError:
        return 1
    except OutputFailedError as error:
        return _report_output(invocation.out, error)
    except KeyboardInterrupt:
        invocation.out.error("interrupted", "what was acknowledged is kept")
        return 130


def _run(arguments: list[str], invocation: Invocation) -> int:
    out = invocation.out
    try:
        # Not `root.main`, which has ideas of its own about signals and closed pipes.
        with root.make_context("attachstore", arguments, obj=invocation) as context:
            status = root.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.UsageError as error:
        _report_usage(out, error)
        return error.exit_code
    except click.Abort:  # the answer to a question was no, or there was none
        out.error("aborted", "nothing was done")
        return 1
    except MemoryError:
        out.error("resource-exhausted", "this machine ran out of memory. Do less at once.")
        return 1
    except Exception as error:  # noqa: BLE001 - bugs, and a failed output, go on from there
        return _report(out, error)
    return int(status or 0)


def _report(out: Output, error: Exception) -> int:
    """One of the package's own errors on standard error; anything else is a bug and goes on."""
    from attachstore.cli.exit_status import status_of
    from attachstore.errors import AttachstoreError

    if not isinstance(error, AttachstoreError):
        raise error
    out.failure(error)
    return status_of(error)


def _report_output(out: Output, error: OutputFailedError) -> int:
    out.error(error.code, str(error), {"where": "standard output", "reason": error.reason})
    return 1


def _report_usage(out: Output, error: click.UsageError) -> None:
    path = error.ctx.command_path if error.ctx else "attachstore"
    # click puts each of several choices on a line of its own.
    message = error.format_message().replace("\n\t", " ").rstrip(".")
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # the message is the help
        if not out.as_json:
            click.echo(error.format_message(), err=True)
            return
        message = "a command is missing"
    out.error("usage", f"{message}. Try `{path} --help`.")


def _occupy_standard_descriptors() -> None:
    """Open what was closed before we started, so that no file of the store becomes descriptor 2.

    A library that prints a warning there would write it into the file.
    """
    for descriptor in _STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
