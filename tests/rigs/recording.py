"""A workload's start, and its trace: what power is cut in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.crash_model import Model
from tests.rigs.adopting import UnmodelledError, adopt
from tests.rigs.crash_states import visible_tree
from tests.rigs.cut_subjects import SUBJECTS
from tests.rigs.journal import Record
from tests.rigs.replaying import Replay
from tests.rigs.tracing import Call, Tracer


@dataclass(frozen=True, slots=True)
class Recording:
    """One workload, watched."""

    name: str
    disk: Path
    """Where it worked; the store is `disk`/store."""
    journal: Path
    start: Model
    """The disk before the work, all of it durable. Copy it before replaying."""
    given: list[Record]
    """What the start says of itself."""
    calls: list[Call]
    status: int

    def replay(self) -> Replay:
        """A fresh replay, at the start."""
        replay = Replay(self.start.copy(), self.disk, self.journal)
        replay.records += self.given
        return replay


def record(tracer: Tracer, name: str, directory: Path, *, mutate: str | None = None) -> Recording:
    """Prepare the workload in a new folder of `directory` and watch its work."""
    place = directory / name
    disk, journal = place / "disk", place / "journal"
    disk.mkdir(parents=True)
    given = SUBJECTS[name].prepare(disk / "store")
    start = adopt(disk)
    trace = tracer.run(
        "tests.rigs.traced_work:work", name, str(disk / "store"), str(journal), mutate=mutate
    )
    recording = Recording(name, disk, journal, start, given, trace.calls, trace.status)
    replay = recording.replay()
    replay.apply_all(recording.calls)
    check_model(replay, disk)
    return recording


def check_model(replay: Replay, disk: Path) -> None:
    """A replay that is at its end must show what the kernel shows, or the model is wrong."""
    modelled, actual = _contents(replay.model), _contents(adopt(disk))
    different = sorted(
        it for it in modelled.keys() | actual.keys() if modelled.get(it) != actual.get(it)
    )
    if different:
        raise UnmodelledError(f"the model and the disk differ in {different}")


def _contents(model: Model) -> dict[str, bytes | None]:
    return {
        path: content
        for path, (_, content) in visible_tree(model).items()
        if not path.endswith("-shm")  # written through a mapping
    }
