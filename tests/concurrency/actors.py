"""What the actors of the model check do with one object, and what must hold in every state.

The code is the product's: `ObjectStore` on a `FilesystemBackend`. Only the disk is a model.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import NoReturn

from attachstore.disk import Disk
from attachstore.errors import ObjectCorruptError, ObjectMissingError
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.store import ObjectStore
from tests.concurrency.explorer import State
from tests.concurrency.programs import Body, Program
from tests.concurrency.world import File, Inode, World
from tests.intercepted_disk import InterceptedDisk
from tests.objects.samples import DATA, DIGEST, attachment, reference

ROOT = Path("/s")
OBJECT = str(ROOT / "objects" / "blake3" / DIGEST.hex[:2] / DIGEST.hex)
STAGING, QUARANTINE = str(ROOT / "staging"), str(ROOT / "quarantine")
DIRECTORIES = frozenset(
    [
        STAGING,
        QUARANTINE,
        *(str(each) for each in Path(OBJECT).parents if each.is_relative_to(ROOT)),
    ]
)
BAD: Inode = 9001
PROMISES = frozenset({"stored", "duplicate", "healed"})


def empty() -> World:
    """A store without the object."""
    return World(DIRECTORIES)


def damaged() -> World:
    """A store that holds other bytes under the object's name."""
    return World(DIRECTORIES, {BAD: File(b"rotten", synced=True)}, {OBJECT: BAD})


class OldDisk(InterceptedDisk):
    """No unnamed files and no exchange, on top of another disk."""

    def open_temporary(self, directory: Path, mode: int) -> NoReturn:
        raise OSError(errno.EOPNOTSUPP, "not here")

    def exchange(self, path: Path, other_path: Path) -> NoReturn:
        raise OSError(errno.EINVAL, "not here")


def _store(disk: Disk) -> ObjectStore:
    return ObjectStore(FilesystemBackend(ROOT, disk))


def _put(disk: Disk) -> str:
    return _store(disk).commit(attachment()).outcome.value


def _confirm(disk: Disk) -> str:
    """What an append does with a reference that somebody else made."""
    try:
        _store(disk).confirm(reference())
    except (ObjectMissingError, ObjectCorruptError) as error:
        return error.code
    return "duplicate"


def _quarantine(disk: Disk) -> str:
    """What a scan does with what it finds corrupt."""
    store = _store(disk)
    if not isinstance(store.verify(DIGEST).error, ObjectCorruptError):
        return "nothing to do"
    return "quarantined" if store.quarantine(DIGEST, "scan") else "not bad any more"


def _read(disk: Disk) -> str:
    try:
        return "right" if _store(disk).read(DIGEST) == DATA else "WRONG BYTES"
    except (ObjectMissingError, ObjectCorruptError) as error:
        return error.code


def _sweep(disk: Disk) -> str:
    return f"swept {_store(disk).sweep()}"


_BODIES: dict[str, Callable[[Disk], str]] = {
    "put": _put,
    "confirm": _confirm,
    "quarantine": _quarantine,
    "read": _read,
    "sweep": _sweep,
}


def program(name: str, number: int = 0, *, old: bool = False) -> Program:
    """One of put, confirm, quarantine, read, sweep; `old` on a disk that can do less."""
    body: Body = _BODIES[name]
    if old:
        return Program(f"{name} {number}", lambda disk: body(OldDisk(disk)))
    return Program(f"{name} {number}", body)


def is_promise(outcome: Hashable) -> bool:
    return outcome in PROMISES


def check(state: State) -> list[str]:
    """The oracle of one state; [] if all is well."""
    return [*_check_object(state), *_check_bad_bytes(state), *_check_outcomes(state)]


def _check_object(state: State) -> list[str]:
    world = state.world
    found: list[str] = []
    named = world.names.get(OBJECT)
    if named not in (None, BAD) and world.files[named] != File(DATA, synced=True):
        found.append("visible, and not whole and synced")
    if any(map(is_promise, state.outcomes)):
        for inode in world.may_be_left(OBJECT):
            if inode is None or world.files[inode] != File(DATA, synced=True):
                left = "nothing" if inode is None else "other bytes"
                found.append(f"promised, and a power cut may leave {left}")
    return found


def _check_bad_bytes(state: State) -> list[str]:
    world = state.world
    if BAD not in world.files:
        return []
    named = [name for name, inode in world.names.items() if inode == BAD]
    if not named:
        return ["the bad bytes have no name any more"]
    if {"healed", "quarantined"} & set(state.outcomes):
        aside = [name for name in named if name.startswith(QUARANTINE)]
        if not aside:
            return [f"moved aside, and lying at {named}"]
        if any(world.may_be_left(name) - {BAD} for name in aside):
            return ["moved aside, and a power cut may lose the bad bytes"]
    return []


def _check_outcomes(state: State) -> list[str]:
    allowed = PROMISES | {"right", "killed", "nothing to do", "not bad any more", "quarantined"}
    found: list[str] = []
    for outcome, promised in zip(state.outcomes, state.promised, strict=True):
        if outcome in {"object-missing", "object-corrupt"}:
            if promised:
                found.append(f"promised before, and read or confirmed as {outcome}")
        elif isinstance(outcome, str) and outcome.startswith("swept"):
            continue
        elif outcome is not None and outcome not in allowed and outcome != ("killed",):
            found.append(f"ended with {outcome}")
    return found
