"""Command and options: how every command looks in `--help`, and the flags several share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from attachstore.cli.invocation import Invocation
from attachstore.config import LIMITS, SETTINGS, Setting

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

PATH = click.Path(readable=False)
"""A path that the parser does not look at. What reads it or writes it tells what is wrong with it,
and the other files that were given go their way.
"""


class Command(click.Command):
    """A command that shows examples, keeps limits apart, and takes --json itself too."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", CONTEXT)
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.params.append(json_option())

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _through_output(super().get_help_option(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, then the limits, which few people change."""
        for title, are_limits in (("Options", False), ("Limits", True)):
            records = [
                record
                for param in self.get_params(ctx)
                if isinstance(param, click.Option)  # arguments stand in the usage line
                and isinstance(param, SettingOption) is are_limits
                and (record := param.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        super().format_epilog(ctx, formatter)


class CommandIndex(click.Group):
    """A group whose commands are imported when they are used, not when they are listed.

    `index` maps a command's name to its module and its one-line summary; the module's
    `command`, or the attribute after a colon, is the click command.
    """

    def __init__(self, *args: Any, index: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", CONTEXT)
        super().__init__(*args, **kwargs)
        self.index = index

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _through_output(super().get_help_option(ctx))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(self.index)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in self.index:
            return None
        module, _, attribute = self.index[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), attribute or "command")

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.index.items()])


def _through_output(option: click.Option | None) -> click.Option | None:
    """Let help be printed as everything else is, full disks and closed pipes included."""
    if option is not None:
        option.callback = _show_help
    return option


def _show_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.ensure_object(Invocation).out.line(ctx.get_help())
        ctx.exit()


def json_option() -> click.Option:
    """--json, which stands before the command or after it."""
    return click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_switch_to_json,
        help="Print JSON, one object per line, errors included.",
    )


def _switch_to_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Invocation).out.as_json = True


class _SettingType(click.ParamType[Any]):
    def __init__(self, setting: Setting) -> None:
        self.name = setting.metavar
        self._setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._setting.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class SettingOption(click.Option):
    """A setting given as a flag; the invocation remembers it, the command need not."""

    def __init__(self, key: str) -> None:
        setting = SETTINGS[key]

        def remember(ctx: click.Context, _: click.Parameter, value: object) -> None:
            if value is not None:
                ctx.ensure_object(Invocation).flags[key] = value

        declared = setting.flag
        if setting.is_switch:
            declared += f"/--no-{setting.flag.removeprefix('--')}"
        super().__init__(
            [declared],
            type=None if setting.is_switch else _SettingType(setting),
            default=None,
            expose_value=False,
            callback=remember,
            help=f"{setting.help} [default: {setting.default}]",
        )


def limits(function: F) -> F:
    """Add a flag for every limit of the admission policy, for a preset, for the longest event."""
    params: list[click.Parameter] = getattr(function, "__click_params__", [])
    # What click's own decorators do, which is why the list runs backwards.
    params += [SettingOption(key) for key in reversed(("event_bytes_max", "preset", *LIMITS))]
    vars(function)["__click_params__"] = params
    return function


def complete_session(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Session ids for the shell's completion."""
    from attachstore.cli.completing import session_ids

    return session_ids(ctx, incomplete)


def complete_reference(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Digests for the shell's completion."""
    from attachstore.cli.completing import digests

    return digests(ctx, incomplete)
