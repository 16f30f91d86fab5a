"""Narrator: tells a story in numbered steps, in colour on a terminal, plain in a pipe."""

from __future__ import annotations

from attachstore.cli.output import Output


class Narrator:
    """Says nothing with --json: then the story's numbers are printed, once, at its end."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._step = 0

    def heading(self, title: str, explanation: str) -> None:
        """Begin the next step."""
        self._step += 1
        self._say((f"\n{self._step}  {title}", "bold cyan"), (f"  {explanation}", "dim"))

    def item(self, text: str) -> None:
        """Something that went well."""
        self._say(("   ✓ ", "green"), (text, ""))

    def detail(self, text: str) -> None:
        """What belongs to the item before."""
        self._say((f"     {text}", "dim"))

    def problem(self, text: str) -> None:
        """Something that did not."""
        self._say(("   ✗ ", "bold red"), (text, ""))

    def result(self, label: str, value: str) -> None:
        """A line of the summary."""
        self._say((f"   {label:<28}", "dim"), (value, "bold"))

    def _say(self, *parts: tuple[str, str]) -> None:
        if not self._out.as_json:
            self._out.styled(*parts)
