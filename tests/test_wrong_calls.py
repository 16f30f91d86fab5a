"""Wrong calls: TypeError or ValueError that says what is wrong, at once, and nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from attachstore import (
    AdmissionPolicy,
    Digest,
    EmitPolicy,
    IntakePolicy,
    Reference,
    Store,
    blocking,
)
from attachstore.admission.presets import openai


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "store", emit=EmitPolicy(delay_s=3600)) as store:
        yield store


@pytest.mark.parametrize("threads_max", [0, -1, 1.0, "4", True])
def test_a_store_has_a_thread_at_least(tmp_path: Path, threads_max: Any) -> None:
    """Without one its first call waited for ever."""
    kind = ValueError if type(threads_max) is int else TypeError
    for opener in (Store.open, blocking.Store.open):
        with pytest.raises(kind, match="threads_max"):
            opener(tmp_path / "store", threads_max=threads_max)
    assert list(tmp_path.iterdir()) == []


async def test_a_session_does_not_adopt_itself(store: Store) -> None:
    session = await store.sessions.create("s-1")
    await session.emit("message", 1)

    async with asyncio.timeout(20):
        with pytest.raises(ValueError, match="adopts"):
            await session.adopt(session)
        await session.flush()

    assert (session.head, session.queued) == (1, 0)


async def test_two_sessions_do_not_adopt_each_other(store: Store) -> None:
    first, second = [await store.sessions.create(name) for name in ("s-1", "s-2")]

    async with asyncio.timeout(20):
        outcomes = await asyncio.gather(
            first.adopt(second), second.adopt(first), return_exceptions=True
        )

    assert [type(outcome) for outcome in outcomes] == [ValueError, ValueError]


WRONG_SEQS: list[Any] = ["0", b"0", True, False, 0.0, -1]


@pytest.mark.parametrize("wrong", WRONG_SEQS)
async def test_a_seq_is_an_int_from_0_on(store: Store, tmp_path: Path, wrong: Any) -> None:
    """`after="0"` was a conflict with event 0, for ever if one tries again as documented."""
    kind = ValueError if type(wrong) is int else TypeError
    session = await store.sessions.create("s-1")
    await session.append("message", 1)
    await session.emit("message", 2)
    with pytest.raises(kind, match="after "):
        await session.append("message", 3, after=wrong)
    with pytest.raises(kind, match="after "):
        await session.append_many([("message", 3)], after=wrong)
    with pytest.raises(kind, match="after "):
        await session.attach(b"text", after=wrong)
    with pytest.raises(kind, match="after "):
        store.sessions.read("s-1", after=wrong)
    with pytest.raises(kind, match="at "):
        await store.sessions.fork("s-1", id="s-2", at=wrong)
    for call in (store.replay, store.readback):
        with pytest.raises(kind, match="at "):
            call("s-1", at=wrong)
    with pytest.raises(kind, match="at "):
        await store.export("s-1", tmp_path / "out", at=wrong)
    with pytest.raises(kind, match="at "):
        await store.write_page("s-1", tmp_path / "page.html", at=wrong)

    assert (session.head, session.queued) == (1, 1)
    assert [digest async for digest in store.list()] == []
    assert [summary.id for summary in await store.sessions.list()] == ["s-1"]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize(
    "events",
    ["ab", ["ab"], [b"ab"], [("a",)], [("a", 1, 2)], [{"a": 1, "b": 2}], {"ab": 1}, [None]],
)
async def test_events_are_pairs_of_type_and_data(store: Store, events: Any) -> None:
    """`"ab"` was written as an event of type "a" with the data "b"."""
    session = await store.sessions.create("s-1")
    with pytest.raises(TypeError, match="pair"):
        await session.append_many(events)
    with pytest.raises(TypeError, match="pair"):
        await session.append_many([("a", 1), *events])

    assert session.head == 0
    assert len(await session.append_many([("a", 1), ["b", 2]])) == 2  # type: ignore[list-item]


@pytest.mark.parametrize(
    "setting",
    [
        {"policy": {}},
        {"policy": {"bytes_max": 5}},
        {"emit": True},
        {"emit": 0},
        {"intake": 5},
        {"intake": None},
        {"intake": {}},
        {"sessions": 5},
        {"event_bytes_max": 5.0},
        {"event_bytes_max": "5"},
    ],
)
def test_a_setting_is_of_its_kind(tmp_path: Path, setting: dict[str, Any]) -> None:
    for opener in (Store.open, blocking.Store.open):
        with pytest.raises(TypeError, match=next(iter(setting))):
            opener(tmp_path / "store", **setting)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "limit",
    [
        {"idle_s": -1},
        {"idle_s": float("nan")},
        {"burst_s": -0.1},
        {"object_bytes_max": 0},
        {"object_bytes_max": (64 << 20) + 1},
        {"file_bytes": -1},
    ],
)
def test_limits_of_the_intake_are_limits(limit: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at (least|most)"):
        IntakePolicy(**limit)


@pytest.mark.parametrize(
    "field",
    [
        {"digest": "blake3:" + "0" * 64},
        {"digest": None},
        {"size": 5.0},
        {"size": True},
        {"size": "5"},
        {"width": 1.5},
        {"pages": True},
        {"media_type": None},
    ],
)
def test_a_reference_has_fields_of_their_kinds(field: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"digest": Digest.of(b"text!"), "size": 5, "media_type": "text/plain"}
    with pytest.raises(TypeError, match=r"digest is|size is|width is|pages is|expected string"):
        Reference(**{**fields, **field})


@pytest.mark.parametrize("policy", [AdmissionPolicy(), openai()], ids=["own", "a provider's"])
def test_a_policy_is_asked_about_a_reference(policy: AdmissionPolicy) -> None:
    wrong: Any = Digest.of(b"text!")
    with pytest.raises(TypeError, match="reference is a Reference, not Digest"):
        policy.check(wrong)


def test_what_is_told_of_failures_is_a_function() -> None:
    wrong: Any = "print"
    with pytest.raises(TypeError, match="on_failure is a function or None, not str"):
        EmitPolicy(on_failure=wrong)


@pytest.mark.parametrize("text", [5, None, b"blake3:"])
def test_a_written_digest_is_text(text: Any) -> None:
    with pytest.raises(TypeError, match="is text, not"):
        Digest.parse(text)


async def test_digests_are_listed_by_a_prefix_as_written(store: Store) -> None:
    digest = (await store.attach(b"text")).digest
    for prefix in ("", "blake3:", digest.hex[:2], f"blake3:{digest.hex[:2]}", str(digest)):
        assert [found async for found in store.list(prefix)] == [digest]
    wrong: list[Any] = ["g", digest.hex[:2].upper() + "A", "sha256:00", "blake3:blake3:", "0" * 65]
    for prefix in wrong:
        with pytest.raises(ValueError, match="lower-case hex"):
            store.list(prefix)
    for prefix in (5, None, b"00"):
        with pytest.raises(TypeError, match="is text, not"):
            store.list(prefix)  # type: ignore[arg-type]


class AnyPath:
    """What `os.fspath` takes, and no Path."""

    def __init__(self, path: Any) -> None:
        self._path = path

    def __fspath__(self) -> Any:
        return self._path


async def test_places_to_write_to_may_be_text(store: Store, tmp_path: Path) -> None:
    reference = await store.attach(b"text", name="a.txt")
    async with await store.sessions.create("s-1") as session:
        await session.append("message", reference)

    report = await store.write_page("s-1", str(tmp_path / "page.html"))
    exported = await store.export("s-1", str(tmp_path / "files"))
    await store.copy_to(reference, str(tmp_path / "copy"))
    await store.copy_to(reference, AnyPath(str(tmp_path / "other")))
    wrong: list[Any] = [5, None, b"page", AnyPath(b"page")]
    for place in wrong:
        with pytest.raises(TypeError):
            await store.copy_to(reference, place)
        with pytest.raises(TypeError):
            await store.write_page("s-1", place)
        with pytest.raises(TypeError):
            await store.export("s-1", place)

    assert report.path == tmp_path / "page.html"
    assert report.path.is_file()
    assert exported.files == 1
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "other").read_bytes() == b"text"


async def test_stores_are_no_sessions(store: Store, tmp_path: Path) -> None:
    session = await store.sessions.create("s-1")
    await session.append("message", 1)
    for wrong in (store, session, "s-1", 0, store.logs):
        with pytest.raises(TypeError, match="into is `sessions` of an open store, not"):
            await store.sessions.fork("s-1", id="s-2", into=wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="of is `sessions` of an open store, not"):
            await store.sessions.divergence("s-1", "s-1", of=wrong)  # type: ignore[arg-type]
    for wrong in (None, store, "s-1"):
        with pytest.raises(TypeError, match="is a Session, not"):
            await session.adopt(wrong)  # type: ignore[arg-type]


def test_stores_are_no_sessions_in_scripts(tmp_path: Path) -> None:
    with blocking.Store.open(tmp_path / "store") as store:
        session = store.sessions.create("s-1")
        session.append("message", 1)
        for wrong in (store, session, "s-1", 0):
            with pytest.raises(TypeError, match="into is `sessions` of an open store, not"):
                store.sessions.fork("s-1", id="s-2", into=wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="of is `sessions` of an open store, not"):
                store.sessions.divergence("s-1", "s-1", of=wrong)  # type: ignore[arg-type]
        for wrong in (None, store, "s-1"):
            with pytest.raises(TypeError, match="is a Session, not"):
                session.adopt(wrong)  # type: ignore[arg-type]
