"""The oracle: one function that says what is wrong with a store, given what was promised.

It judges eight points:

 (1) nothing acknowledged is lost;
 (2) nothing that a log refers to is missing;
 (3) no visible object, and no byte that was served, differs from its digest;
 (4) opening the store again never raises, does the same the second time, and a log is an exact
     prefix of what was tried, with all that was acknowledged in it;
 (5) a file that is replaced as a whole holds the last acknowledged value or a later one;
 (6) after an error of the medium the writer who met it refuses to go on;
 (7) no descriptor, thread, lock or temporary file is left;
 (8) nothing is deleted without a command that says so: cut-off bytes are kept.

What is stored is read with code of its own (stored.py), what was promised is worked out from the
journal (promises.py); the package is used only for what a user does after a crash: open, list,
read, load.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attachstore import Digest, Store
from attachstore.errors import AttachstoreError, LogDamagedError, SessionMissingError
from tests.rigs import stored
from tests.rigs.journal import Record
from tests.rigs.promises import Promises, SessionPromise


def judge(root: Path, records: Sequence[Record]) -> list[str]:
    """What is wrong with the store at `root`; [] if nothing is.

    `records` are those of `Workload.prepare` and then of every process that worked on the store,
    in the order of their work. The store is opened as a user would, which settles what a crash
    left: look at it before, if that is of interest.
    """
    promises = Promises(records)
    wrong = list(promises.violations)
    with quiet():
        wrong += _visible_objects(root, promises)
        wrong += asyncio.run(_reopened(root, promises, "opened"))
        wrong += _logs(root, promises)
        wrong += _objects(root, promises)
        settled = stored.tree(root)
        wrong += asyncio.run(_reopened(root, promises, "opened again"))
        wrong += _differences(settled, stored.tree(root))
    wrong += _leftovers(root)
    wrong += _states(root, promises)
    return wrong


# -- (1) (2) (3) objects -----------------------------------------------------------------------


def _visible_objects(root: Path, promises: Promises) -> list[str]:
    """As a crash left them, before anybody could mend anything."""
    faults = {path.name: stored.fault_of_object(path) for path in stored.objects(root)}
    return [
        f"visible object: {fault}"
        for name, fault in faults.items()
        if fault and name not in promises.corrupt and name not in promises.may_be_missing
    ]


def _objects(root: Path, promises: Promises) -> list[str]:
    wanted = dict.fromkeys(promises.objects, "an acknowledged object")
    for session_id in promises.sessions:
        log = stored.log_of(root, session_id)
        for event in log.events if log else ():
            wanted |= dict.fromkeys(event.references, f"{session_id} {event.seq} refers to it")
    return [
        f"missing object {digest}: {why}"
        for digest, why in wanted.items()
        if digest not in promises.may_be_missing
        and not (root / "objects" / "blake3" / digest[:2] / digest).exists()
    ]


# -- (4) opening, and what it finds ------------------------------------------------------------


async def _reopened(root: Path, promises: Promises, when: str) -> list[str]:
    """Open the store, read every promised object, read and load every session.

    By the blocking calls below `Store`: nothing else happens meanwhile, and states are many.
    """
    wrong: list[str] = []
    try:
        create = not promises.store_exists
        async with Store.open(root, create=create, decode_in_process=True) as store:
            for digest in sorted(promises.objects):
                wrong += _served(store, digest, promises)
            for session_id, promise in promises.sessions.items():
                wrong += _loaded(store, session_id, promise)
            store.objects.sweep()
            listed = {it.id: it.problem for it in store.logs.list()}
            wrong += _listing(listed, promises)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        wrong.append(f"the store raises {error!r}")
    return [f"{when}: {what}" for what in wrong]


def _served(store: Store, digest: str, promises: Promises) -> list[str]:
    try:
        data = store.objects.read(Digest.parse(f"blake3:{digest}"))
    except AttachstoreError as error:
        known = digest in promises.corrupt or digest in promises.may_be_missing
        return [] if known else [f"object {digest} cannot be read: {error.code}"]
    return [] if Digest.of(data).hex == digest else [f"other bytes are served as {digest}"]


def _loaded(store: Store, session_id: str, promise: SessionPromise) -> list[str]:
    """A reader and then a writer meet the session; both see the same events."""
    try:
        read = [event.seq for event in store.logs.events(session_id)]
        log = store.logs.load(session_id, close_turn=False)
        head = log.head
        log.close()
    except SessionMissingError:
        return [f"{session_id} is lost"] if promise.must_exist else []
    except LogDamagedError as error:
        return [] if promise.may_be_damaged else [f"{session_id}: {error}"]
    except AttachstoreError as error:
        return [f"{session_id} cannot be opened: {error!r}"]
    wrong = [f"{session_id} was deleted and is there"] if promise.must_be_gone else []
    if read != list(range(1, head + 1)):
        wrong.append(f"{session_id}: a reader saw {read[-1:]}, the writer's head is {head}")
    return wrong


def _listing(listed: dict[str, AttachstoreError | None], promises: Promises) -> list[str]:
    wrong = [
        f"{session_id}, unknown, is listed" for session_id in listed.keys() - promises.sessions
    ]
    for session_id, promise in promises.sessions.items():
        if promise.must_exist and session_id not in listed:
            wrong.append(f"{session_id} is not listed")
        if listed.get(session_id) and not promise.may_be_damaged:
            wrong.append(f"{session_id} is listed with {listed[session_id]!r}")
    return wrong


def _logs(root: Path, promises: Promises) -> list[str]:
    wrong: list[str] = []
    for session_id, promise in promises.sessions.items():
        try:
            log = stored.log_of(root, session_id)
        except sqlite3.DatabaseError as error:
            wrong.append(f"{session_id}: the database cannot be read: {error}")
            continue
        if log is None:
            continue
        wrong += [f"{session_id}: {what}" for what in promise.violations(log.events)]
        if len(log.content) != log.proven_bytes and not promise.may_be_damaged:
            wrong.append(f"{session_id}: bytes from {log.proven_bytes} are no event")
        places = [log.content, *stored.kept_pieces(root, session_id)]
        if not all(any(kept in place for place in places) for kept in promise.kept):
            wrong.append(f"{session_id}: cut-off bytes are not kept")
    return wrong


def _differences(
    before: dict[str, tuple[int, bytes]], after: dict[str, tuple[int, bytes]]
) -> list[str]:
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    return [f"opening again changes {name}" for name in sorted(changed)]


# -- (5) (7) -----------------------------------------------------------------------------------


def _states(root: Path, promises: Promises) -> list[str]:
    wrong: list[str] = []
    for name, allowed in promises.states.items():
        path = root.parent / name
        actual = Digest.of(path.read_bytes()).hex if path.exists() else ""
        if actual not in allowed:
            wrong.append(f"{name} holds neither the last acknowledged value nor a later one")
    for name in promises.checkpoints:
        path = root.parent / name
        try:
            json.loads(path.read_bytes() if path.exists() else b"{}")
        except ValueError:
            wrong.append(f"{name} is there in part")
    return wrong


def _leftovers(root: Path) -> list[str]:
    """No writer lives, and the store was drained: nothing temporary may be there."""
    left = [*sorted((root / "staging").glob("*")), *sorted((root / "intake").glob("*"))]
    return [f"left in {path.parent.name}: {path.name}" for path in left]


@contextmanager
def quiet() -> Generator[None]:
    """What the package warns of (repaired, healed) is expected here."""
    logger = logging.getLogger("attachstore")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
