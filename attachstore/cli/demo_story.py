"""What the demo does, in order, and what it says meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attachstore.cli.demo_store import mark
from attachstore.cli.invocation import Invocation
from attachstore.cli.narrator import Narrator
from attachstore.cli.output import dimensions, human_size, plural, visible
from attachstore.errors import AttachstoreError

if TYPE_CHECKING:
    from attachstore.reference import Reference
    from attachstore.sessions.session import Session
    from attachstore.store import Store

SESSION = "demo"
FORK = "demo-fork"
_CAPTIONS = {
    "evening.jpg": "Here is the photo for the front page.",
    "test-results.png": "And this is what the dashboard shows.",
    "orbit.gif": "The animation for the loading screen.",
    "morning.webp": "The same hills in the morning.",
    "report.pdf": "The report, two pages.",
    "chime.wav": "The sound for when a build is done.",
    "build-output.txt": "The build printed 12 MB; all of it is here, byte for byte.",
}


@dataclass(slots=True, kw_only=True)
class Numbers:
    """What the demo counts."""

    references: list[Reference] = field(default_factory=list["Reference"])
    """One for each time that the session refers to a file."""
    refused: int = 0
    log_bytes: list[int] = field(default_factory=list[int])
    """Of the parent's log and the fork's."""
    largest_line_bytes: int = 0
    """Log line of the event that refers to the largest file."""
    outcomes: Counter[str] = field(default_factory=Counter[str])
    """Of the fork's references, once its parent is gone."""
    clean: bool = False

    @property
    def object_bytes(self) -> int:
        """Each object counts once, however often it is referred to."""
        return sum({each.digest: each.size for each in self.references}.values())

    @property
    def stored_bytes(self) -> int:
        return self.object_bytes + sum(self.log_bytes)

    @property
    def inline_bytes(self) -> int:
        """What the logs would take with the files in them, as base64: 4 bytes for every 3."""
        per_log = sum(4 * -(-each.size // 3) for each in self.references)
        return sum(self.log_bytes) + per_log * len(self.log_bytes)

    def as_json(self, store: Store, page: Path) -> dict[str, Any]:
        return {
            "store": str(store.root),
            "page": str(page.absolute()),
            "session": FORK,
            "references": [each.to_json() for each in self.references],
            "refused": self.refused,
            "outcomes": dict(self.outcomes),
            "clean": self.clean,
            "object_bytes": self.object_bytes,
            "log_bytes": sum(self.log_bytes),
            "largest_line_bytes": self.largest_line_bytes,
            "inline_bytes": self.inline_bytes,
        }


async def tell(
    invocation: Invocation, files: Sequence[Path], page: Path, directory: Path
) -> Numbers:
    """Run the demo on samples, made in `directory`, and on the user's `files`."""
    from attachstore.admission.samples import write_samples

    numbers, narrator = Numbers(), Narrator(invocation.out)
    async with invocation.writing() as store:
        mark(store.root)
        narrator.heading("Sample files", "one of each common kind, made for this run")
        samples = write_samples(directory)
        for path in samples:
            narrator.item(f"{path.name:<18}{human_size(path.stat().st_size):>9}")
        session = await store.sessions.create(SESSION, meta={"title": "A demo of attachstore"})
        await _attach(narrator, store, session, [*samples, *files], numbers)
        await _attach_again(narrator, store, session, samples[0], numbers)
        await _fork(narrator, store, session, numbers)
        await _delete_parent(narrator, store, session, numbers)
        await _scan(narrator, store, numbers)
        report = await store.write_page(FORK, page)
        _sum_up(narrator, store, numbers, report.path)
        if invocation.out.as_json:
            invocation.out.record(numbers.as_json(store, report.path), "")
    return numbers


async def _attach(
    narrator: Narrator, store: Store, session: Session, files: Sequence[Path], numbers: Numbers
) -> None:
    narrator.heading("Attach", "decoded, hashed, made durable; then logged, one event each")
    await session.append("turn/start", {})
    for path in files:
        try:
            committed = await store.put(path)
        except AttachstoreError as error:
            numbers.refused += 1
            narrator.problem(f"{visible(path.name)}: {error.code}: {visible(str(error))}")
            continue
        reference = committed.reference
        text = _CAPTIONS.get(path.name, "A file of your own.")
        await session.append("message", {"role": "user", "content": [text, reference]})
        numbers.references.append(reference)
        narrator.item(_described(reference))
        narrator.detail(str(reference.digest))
    await session.append("turn/end", {"reason": "done"})


def _described(reference: Reference) -> str:
    facts = [reference.media_type]
    if reference.width is not None:
        facts.append(dimensions(reference.width, reference.height))
    if reference.frames is not None and reference.frames > 1:
        facts.append(plural(reference.frames, "frame"))
    if reference.pages is not None:
        facts.append(plural(reference.pages, "page"))
    return f"{visible(reference.name or '-'):<18}{', '.join(facts)}"


async def _attach_again(
    narrator: Narrator, store: Store, session: Session, path: Path, numbers: Numbers
) -> None:
    narrator.heading("Attach one again", "the same bytes are one object")
    committed = await store.put(path)
    text = "This is the photo that I took:"
    await session.append("message", {"role": "assistant", "content": [text, committed.reference]})
    numbers.references.append(committed.reference)
    narrator.item(f"{path.name}: {committed.outcome.value}; read, hashed, found equal")


async def _fork(narrator: Narrator, store: Store, session: Session, numbers: Numbers) -> None:
    narrator.heading("Fork", "the log's lines are copied, the attachments are shared")
    fork = await store.sessions.fork(SESSION, id=FORK)
    await fork.append("message", {"role": "user", "content": "From here on it is another story."})
    numbers.log_bytes = [
        (await store.sessions.inspect(name)).size_bytes for name in (SESSION, FORK)
    ]
    numbers.largest_line_bytes = await _line_bytes_of_largest(store)
    narrator.item(f"{FORK} has the {plural(session.head, 'event')} of {SESSION}, and its own")


async def _line_bytes_of_largest(store: Store) -> int:
    """Length of the log line that refers to the largest file: lines begin where others end."""
    from attachstore.sessions.data import references_in

    best = (0, 0)
    before = None
    async for event in store.sessions.read(SESSION):
        if before is not None:
            size = max((each.size for _, each in references_in(before.data)), default=0)
            best = max(best, (size, event.offset_bytes - before.offset_bytes))
        before = event
    return best[1]


async def _delete_parent(
    narrator: Narrator, store: Store, session: Session, numbers: Numbers
) -> None:
    narrator.heading("Delete the parent", "its log goes; no object does")
    await session.close()
    await store.sessions.delete(SESSION)
    narrator.item(f"{SESSION} is gone")
    narrator.heading("Replay the fork", "offline; every reference resolved and verified")
    async for step in store.replay(FORK, lenient=True):
        numbers.outcomes.update(each.outcome.value for each in step.attachments)
    for outcome, count in numbers.outcomes.items():
        say = narrator.item if outcome == "ok" else narrator.problem
        say(f"{plural(count, 'reference')} {outcome}")


async def _scan(narrator: Narrator, store: Store, numbers: Numbers) -> None:
    narrator.heading("Scan", "every object, every log, one against the other")
    report = await store.scan()
    numbers.clean = report.clean
    read = (
        f"{plural(report.objects, 'object')}, {human_size(report.bytes_read)}, "
        f"{plural(report.references, 'reference')}"
    )
    if report.clean:
        narrator.item(f"{read}: clean")
    for finding in report.findings:
        narrator.problem(f"{finding.kind.value}: {visible(finding.what)}")


def _sum_up(narrator: Narrator, store: Store, numbers: Numbers, page: Path) -> None:
    saved = 1 - numbers.stored_bytes / numbers.inline_bytes
    narrator.heading("What it took", "the session and its fork")
    narrator.result("with base64 in the logs", human_size(numbers.inline_bytes))
    narrator.result(
        "with references",
        f"{human_size(numbers.stored_bytes)}, of which {human_size(sum(numbers.log_bytes))} logs",
    )
    narrator.result("saved", f"{saved:.0%}")
    largest = max(each.size for each in numbers.references)
    narrator.result(f"log line for {human_size(largest)}", f"{numbers.largest_line_bytes:,} bytes")
    narrator.result("store", str(store.root))
    narrator.result("page to look at", str(page.absolute()))
