"""What three stores let in: the files of tests/cases, given to each with the same claim.

    python -m benchmarks.let_in > docs/comparison.md

Needs `pydantic-ai-harness` and `google-adk`, which are installed by name for this alone; it says
so if they are missing. Ours runs under the default policy; the peers have none to set. The column
"right" is the outcome that tests/admission/test_cases.py demands of us.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from attachstore import Store
from attachstore.errors import AdmissionError
from tests.admission.test_cases import CASES, DEFAULT, TABLE

PEERS = ("pydantic-ai-harness", "google-adk")
ANY = "any"
"""Of files that are about something else than admission, such as damaged logs."""

Put = Callable[[bytes, str, str | None], Awaitable[str]]

HEAD = """# Comparison: what is let in

Every file from the bug reports in `tests/cases`, given to three stores with the same name and
the same declared type. Made by `python -m benchmarks.let_in` with
{versions}.

- **attachstore**, default policy: the type found in the bytes, or the code of the refusal.
- **pydantic-ai-harness** `DiskMediaStore` (keeps no type) and **google-adk** `FileArtifactService`
  (hands back the type it was told): let in, or the exception that it raised.

Where "right" says any, the case is about something else than admission.

Neither peer decodes, and neither says that it does; the table shows what reaches a model
provider if nothing else checks.

{summary}
"""


def _harness(folder: Path) -> Put:
    media: Any = importlib.import_module("pydantic_ai_harness.media")
    store = media.DiskMediaStore(folder)

    async def put(data: bytes, name: str, declared: str | None) -> str:
        context = media.MediaContext(media_type=declared, filename=name)
        uri = await store.put(data, context=context)
        assert await store.get(uri) == data
        return "let in"  # the store keeps no type

    return put


def _adk(folder: Path) -> Put:
    artifacts: Any = importlib.import_module("google.adk.artifacts")
    types: Any = importlib.import_module("google.genai.types")
    service = artifacts.FileArtifactService(folder)
    scope = {"app_name": "app", "user_id": "user", "session_id": "s-1"}

    async def put(data: bytes, name: str, declared: str | None) -> str:
        part = types.Part.from_bytes(data=data, mime_type=declared or "application/octet-stream")
        await service.save_artifact(filename=name, artifact=part, **scope)
        loaded = await service.load_artifact(filename=name, **scope)
        if loaded is None:  # its mark for "deleted" is an empty octet-stream
            return "let in, then hands back nothing"
        return f"let in as {loaded.inline_data.mime_type}"

    return put


def _ours(store: Store) -> Put:
    async def put(data: bytes, name: str, declared: str | None) -> str:
        return (await store.attach(data, name=name, declared=declared)).media_type

    return put


async def _outcome(put: Put, data: bytes, name: str, declared: str | None) -> str:
    try:
        return await put(data, name, declared)
    except AdmissionError as error:
        return error.code
    except Exception as error:  # noqa: BLE001 - whatever a peer raises is its answer
        return type(error).__name__


def _offers() -> Iterator[tuple[str, str | None, str]]:
    """File, claim and right outcome: the table's rows, then every other file as it is."""
    for file, declared, policy, right in TABLE:
        if policy == DEFAULT:
            yield file, declared, right
    known = {file for file, *_ in TABLE}
    for path in sorted(CASES.rglob("*")):
        file = str(path.relative_to(CASES))
        if path.is_file() and file not in known:
            yield file, None, ANY


async def main() -> int:
    try:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in PEERS]
    except importlib.metadata.PackageNotFoundError as error:
        print(f"install the peers first: pip install {' '.join(PEERS)} ({error})", file=sys.stderr)
        return 1
    rows: list[str] = []
    let_in = Counter[str]()
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        async with Store.open(Path(folder, "ours")) as store:
            stores: dict[str, Put] = {
                "attachstore": _ours(store),
                "DiskMediaStore": _harness(Path(folder, "harness")),
                "FileArtifactService": _adk(Path(folder, "adk")),
            }
            for file, declared, right in _offers():
                data, name = (CASES / file).read_bytes(), Path(file).name
                found = [await _outcome(put, data, name, declared) for put in stores.values()]
                must_refuse = right != ANY and "/" not in right.partition(" ")[0]
                refused += must_refuse
                for store_name, outcome in zip(stores, found, strict=True):
                    let_in[store_name] += must_refuse and ("let in" in outcome or "/" in outcome)
                cells = [f"`{file}`", declared or "", right.partition(" ")[0], *found]
                rows.append(f"| {' | '.join(cells)} |")
    summary = "\n".join(
        f"- {name}: {let_in[name]} of {refused} files that must be refused were let in"
        for name in stores
    )
    print(HEAD.format(versions=" and ".join(versions), summary=summary))
    print(f"| file | declared | right | {' | '.join(stores)} |")
    print("|---" * (3 + len(stores)) + "|")
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
