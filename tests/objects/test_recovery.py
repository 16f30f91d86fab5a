"""The recipe in docs/reference/formats-objects.md, run by a shell that knows nothing of us."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attachstore.digest import Digest
from attachstore.errors import ObjectMissingError
from attachstore.objects.store import CommitOutcome
from tests.objects.samples import (
    DATA,
    DIGEST,
    attachment,
    damage,
    make_store,
    names_in,
    object_path,
    reference,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "formats-objects.md"
B3SUM = f"""#!{sys.executable}
import sys, blake3
assert sys.argv[1] == "--no-names"
print(blake3.blake3(open(sys.argv[2], "rb").read()).hexdigest())
"""


def recipe() -> str:
    """The first shell block of the page."""
    found = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_plain_tools_put_whole_copies_back_and_bad_objects_aside(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = make_store(root)
    for data in (DATA, b"bad", b"good"):
        store.commit(attachment(data))
    damage(object_path(root))
    store.quarantine(DIGEST, "scan")
    (copy,) = [path for path in (root / "quarantine").iterdir() if path.suffix != ".json"]
    damage(copy, DATA)  # as if it had been misread
    damage(object_path(root, b"bad"))
    with pytest.raises(ObjectMissingError, match="whole copy is in quarantine"):
        store.read(reference())
    tool = tmp_path / "bin" / "b3sum"
    tool.parent.mkdir()
    tool.write_text(B3SUM)
    tool.chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"

    done = subprocess.run(
        ["sh", "-eu", "-c", recipe()],
        cwd=root,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"restored: {DIGEST.hex}\nmoved aside: {Digest.of(b'bad').hex}\n"
    assert store.read(reference()) == DATA
    assert store.commit(attachment(b"bad")).outcome is CommitOutcome.STORED
    assert {entry.kind.value for entry in store.entries()} == {"object", "quarantine"}
    assert names_in(root / "staging") == []
