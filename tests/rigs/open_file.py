"""What a descriptor of a traced process stands for."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash_model import FileNode, Node


@dataclass(eq=False, slots=True)
class OpenFile:
    """Copies of a descriptor share it."""

    path: bytes
    node: Node | None
    """None: outside of the model."""
    offset_bytes: int = 0
    appends: bool = False
    syncing: list[dict[Any, int]] = field(default_factory=list[dict[Any, int]])
    """What each sync that is under way will cover."""

    def content(self) -> bytes:
        """The bytes that a copy is made of: a file of the model's, or a user's."""
        if isinstance(self.node, FileNode):
            return self.node.content({}, self.node.sizes[-1])
        return Path(os.fsdecode(self.path)).read_bytes()

    def take_offset(self, argument: bytes | str, moved_bytes: int) -> int:
        """Where a call that moved so many bytes began: as it was told, or at the file's own."""
        if argument != "NULL":
            return int(str(argument).strip("[]"), 0)
        self.offset_bytes += moved_bytes
        return self.offset_bytes - moved_bytes
