"""`attachstore session`: the group; its commands are in the modules session_*.py."""

from __future__ import annotations

from attachstore.cli.command import CommandIndex, json_option

_READ = "attachstore.cli.session_read"
_SEAL = "attachstore.cli.session_seal"
_WRITE = "attachstore.cli.session_write"

INDEX = {
    "list": (f"{_READ}:list_command", "List the sessions."),
    "show": (f"{_READ}:show_command", "Show a session's head, references and damage."),
    "tree": (
        "attachstore.cli.session_tree:tree_command",
        "Show which session was forked from which.",
    ),
    "append": (f"{_WRITE}:append_command", "Append an event; its data is JSON on standard input."),
    "fork": (f"{_WRITE}:fork_command", "Branch a new session off an event."),
    "delete": (f"{_WRITE}:delete_command", "Delete session logs, never objects."),
    "verify": (f"{_READ}:verify_command", "Check the chain of every event."),
    "repair": (f"{_WRITE}:repair_command", "Cut a damaged log after its last good event."),
    "seal": (f"{_SEAL}:seal_command", "Keep logs in less room."),
    "unseal": (f"{_SEAL}:unseal_command", "Make sealed logs plain again."),
    "convert": (
        "attachstore.cli.session_convert:convert_command",
        "Move all session logs to another medium.",
    ),
}

command = CommandIndex(
    name="session",
    index=INDEX,
    params=[json_option()],
    short_help="List, show, append to, fork, verify session logs.",
    help="Session logs: append-only, chained, each event durable before it is acknowledged.",
)
