"""Store: the public face, on real directories."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiofiles
import pytest

from attachstore import AdmissionPolicy, Digest, Offer, Reference, Store
from attachstore.disk import Disk
from attachstore.errors import (
    AmbiguousReferenceError,
    AttachstoreError,
    DanglingReferenceError,
    EmptyContentError,
    HeaderMismatchError,
    InvalidConfigurationError,
    InvalidNameError,
    MediaTypeMismatchError,
    ObjectCorruptError,
    ObjectMissingError,
    SourceMissingError,
    SourceUnreadableError,
    StorageReadOnlyError,
    StoreForeignError,
    StoreLayoutError,
    StoreMissingError,
    TooManyBytesError,
)

TEXT = b"hello\n"
MIB = 1 << 20


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "store") as store:
        yield store


def object_path(store: Store, digest: Digest) -> Path:
    return store.root / "objects" / "blake3" / digest.hex[:2] / digest.hex


def flip(path: Path) -> None:
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def staging(store: Store) -> list[Path]:
    return list((store.root / "staging").iterdir())


# -- opening -----------------------------------------------------------------------------------


async def test_a_store_opens_again_as_itself(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "a" / "store") as first:
        reference = await first.attach(TEXT)
    async with Store.open(tmp_path / "a" / "store", create=False) as second:
        assert await second.read(reference) == TEXT

    assert first.marker == second.marker


async def test_a_store_can_be_opened_without_a_block(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store")
    await store.close()
    await store.close()


async def test_opening_in_somebodys_documents_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "thesis.odt").write_bytes(b"x")

    with pytest.raises(StoreForeignError):
        await Store.open(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.odt"]


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
async def test_no_store_is_made_unasked(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(StoreMissingError):
        await Store.open(tmp_path / "store", **options)

    assert list(tmp_path.iterdir()) == []


async def test_a_store_of_another_session_medium_is_not_guessed(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "store"):
        pass
    marker = tmp_path / "store" / "attachstore.json"
    marker.write_text(marker.read_text().replace("jsonl", "postgres"))

    with pytest.raises(StoreLayoutError, match="postgres"):
        await Store.open(tmp_path / "store")


@pytest.mark.parametrize("root", ["\ud800", "a\0b", "file:///a%00b"])
def test_what_can_be_no_path_is_no_place_for_a_store(root: str) -> None:
    """Not a UnicodeEncodeError, nor a ValueError, from the depth of the first system call."""
    with pytest.raises(InvalidConfigurationError, match="no file name can"):
        Store.open(root)


async def test_a_file_url_is_a_path_and_other_urls_are_refused(tmp_path: Path) -> None:
    async with Store.open(f"file://{tmp_path}/with%20space") as store:
        assert store.root == tmp_path / "with space"
    with pytest.raises(InvalidConfigurationError, match="s3"):
        Store.open("s3://bucket/prefix")


async def test_a_relative_root_is_resolved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later chdir of the host must not move the store."""
    monkeypatch.chdir(tmp_path)
    async with Store.open("store") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        reference = await store.attach(TEXT)

    assert object_path(store, reference.digest).read_bytes() == TEXT
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_closed_store_is_a_wrong_call(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "store") as store:
        reference = await store.attach(TEXT)

    for call in (store.attach(TEXT), store.read(reference), store.scan()):
        with pytest.raises(ValueError, match="closed"):
            await call


async def test_opening_read_only_reads_everything_and_creates_nothing(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "store") as store:
        reference = await store.attach(TEXT)
        session = await store.sessions.create("s-1")
        await session.append("message", {"file": reference})
    before = sorted(path for path in store.root.rglob("*"))

    async with Store.open(tmp_path / "store", read_only=True) as reading:
        assert await reading.read(reference) == TEXT
        assert [step.event.seq async for step in reading.replay("s-1")] == [1]
        assert (await reading.scan()).clean
        with pytest.raises(StorageReadOnlyError):
            await reading.attach(b"new")
        with pytest.raises(StorageReadOnlyError):
            await reading.sessions.load("s-1")
        with pytest.raises(StorageReadOnlyError):  # and not at its first append only
            await reading.sessions.create("s-2")
        with pytest.raises(StorageReadOnlyError):
            await reading.scan(quarantine=True)

    assert sorted(path for path in store.root.rglob("*")) == before


# -- attaching ---------------------------------------------------------------------------------


async def stream_of(*blocks: bytes) -> AsyncIterator[bytes]:
    for block in blocks:
        await asyncio.sleep(0)
        yield block


async def test_every_kind_of_source_gives_the_same_object(store: Store, tmp_path: Path) -> None:
    data = os.urandom(3 * MIB).hex().encode()
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    sources: list[Any] = [
        data,
        bytearray(data),
        memoryview(data),
        path,
        stream_of(data[:5], b"", data[5:MIB], data[MIB:]),
        io.BytesIO(data),
    ]

    outcomes = [await store.put(source) for source in sources]
    async with aiofiles.open(path, "rb") as file:
        outcomes.append(await store.put(file))
    with path.open("rb") as file:
        outcomes.append(await store.put(file))

    references = {committed.reference.without_name() for committed in outcomes}
    assert references == {
        Reference(digest=Digest.of(data), size=len(data), media_type="text/plain")
    }
    assert [committed.outcome for committed in outcomes] == ["stored"] + ["duplicate"] * 7
    assert staging(store) == []


async def test_a_path_gives_its_name_and_an_explicit_name_wins(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "Screenshot 9.41\u202fAM.txt"
    path.write_bytes(TEXT)

    assert (await store.attach(path)).name == path.name
    assert (await store.attach(path, name="../up")).name == "../up"
    assert (await store.attach(TEXT)).name is None


async def test_a_path_that_is_not_text_needs_a_name(store: Store, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_bytes(TEXT)

    with pytest.raises(InvalidNameError):
        await store.attach(path)
    assert (await store.attach(path, name="café.txt")).name == "café.txt"


async def test_the_callers_buffer_may_change_while_we_wait(store: Store) -> None:
    buffer = bytearray(b"a" * MIB)
    task = asyncio.create_task(store.attach(buffer))
    await asyncio.sleep(0)
    buffer[:] = b"b" * MIB

    assert await store.read(await task) == b"a" * MIB


@pytest.mark.parametrize("source", ["text", 7, None, [b"x"], io.StringIO("x")])
async def test_a_wrong_source_is_a_wrong_call(store: Store, source: Any) -> None:
    with pytest.raises(TypeError):
        await store.attach(source)


@pytest.mark.parametrize("label", [{"name": 5}, {"declared": 5}, {"declared": b"text/plain"}])
async def test_a_label_that_is_no_text_is_a_wrong_call(store: Store, label: Any) -> None:
    with pytest.raises(TypeError, match="is text, not"):
        await store.attach(TEXT, **label)


@pytest.mark.parametrize("wanted", [5, None, "blake3:00", b"x", {}])
async def test_what_is_no_reference_is_a_wrong_call(
    store: Store, wanted: Any, tmp_path: Path
) -> None:
    """A newcomer passes the digest's text; an AttributeError from deep inside says nothing."""
    for call in (
        lambda: store.read(wanted),
        lambda: store.stat(wanted),
        lambda: store.copy_to(wanted, tmp_path / "copy"),
    ):
        with pytest.raises(TypeError, match="a Reference or a Digest, not"):
            await call()
    if not isinstance(wanted, str):
        with pytest.raises(TypeError, match="is text, not"):
            await store.resolve(wanted)


async def test_a_stream_of_something_else_is_a_wrong_call(store: Store) -> None:
    async def texts() -> AsyncIterator[Any]:
        yield "text"

    with pytest.raises(TypeError, match="bytes"):
        await store.attach(texts())


async def test_a_stream_that_fails_says_so_and_leaves_nothing(store: Store) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield os.urandom(2 * MIB)
        message = "connection reset"
        raise ConnectionResetError(message)

    with pytest.raises(SourceUnreadableError, match="connection reset") as caught:
        await store.attach(failing())

    assert isinstance(caught.value.__cause__, ConnectionResetError)
    assert staging(store) == []


async def test_a_stream_is_read_one_byte_past_the_limit_only(tmp_path: Path) -> None:
    """A stream without end must not fill the disk before it is refused."""
    policy = AdmissionPolicy(bytes_max=3 * MIB)
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 64 << 10
            yield b"x" * (64 << 10)

    async with Store.open(tmp_path / "store", policy=policy) as store:
        with pytest.raises(TooManyBytesError):
            await store.attach(endless(), declared="text/plain")
        assert taken <= 5 * MIB
        assert staging(store) == []
        assert (await store.attach(b"x" * (3 * MIB))).size == 3 * MIB
        with pytest.raises(TooManyBytesError):
            await store.attach(b"x" * (3 * MIB + 1))


async def test_many_are_attached_together(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes(b"from a path")
    items = [b"one", path, Offer(source=stream_of(b"two"), name="2.txt", declared="text/plain")]

    references = await store.attach_many(items)

    assert [await store.read(reference) for reference in references] == [
        b"one",
        b"from a path",
        b"two",
    ]
    assert [reference.name for reference in references] == [None, "p.txt", "2.txt"]
    assert await store.attach_many([]) == []


async def test_one_refusal_hands_out_nothing_and_stores_nothing(store: Store) -> None:
    items = [b"one", b"x" * 2 * MIB, Offer(source=TEXT, declared="image/png"), b"four"]

    with pytest.raises(MediaTypeMismatchError) as caught:
        await store.attach_many(items)

    assert caught.value.index == 2
    assert [digest async for digest in store.list()] == []
    assert staging(store) == []


async def test_the_first_of_several_refusals_is_told_however_many_threads_look(
    store: Store,
) -> None:
    items: list[bytes] = [str(number).encode() for number in range(300)]
    items[40] = items[41] = items[299] = b""

    with pytest.raises(EmptyContentError) as caught:
        await store.attach_many(items)

    assert caught.value.index == 40
    assert staging(store) == []


async def test_what_is_there_already_costs_a_batch_nothing(store: Store) -> None:
    there = await store.attach(b"there")

    references = await store.attach_many([b"new", b"there", b"new"])

    assert references[1] == there
    assert references[0] == references[2]
    assert len([digest async for digest in store.list()]) == 2


async def test_the_medium_says_of_which_item_it_failed(store: Store, tmp_path: Path) -> None:
    """Its shard is a file, so its name cannot be given."""
    items = [b"one", b"two", b"three"]
    shard = store.root / "objects" / "blake3" / Digest.of(b"two").hex[:2]
    shard.rmdir()
    shard.write_bytes(b"")

    with pytest.raises(StoreLayoutError) as caught:
        await store.attach_many(items)

    assert caught.value.index == 1


async def test_checking_stores_nothing(store: Store) -> None:
    admitted = await store.check(TEXT)

    assert admitted.header.media_type == "text/plain"
    assert [digest async for digest in store.list()] == []


async def test_objects_are_read_only_files_of_their_own(store: Store, tmp_path: Path) -> None:
    """Never a hard link to the source: an edit in place would change the object."""
    path = tmp_path / "source.txt"
    path.write_bytes(TEXT)
    reference = await store.attach(path)
    stored = object_path(store, reference.digest)
    with path.open("r+b") as file:
        file.write(b"J")

    assert stored.stat().st_ino != path.stat().st_ino
    assert stat.S_IMODE(stored.stat().st_mode) & 0o222 == 0
    assert await store.read(reference) == TEXT


# -- reading -----------------------------------------------------------------------------------


async def test_a_flipped_bit_is_never_handed_out_and_heals(store: Store, tmp_path: Path) -> None:
    data = os.urandom(MIB).hex().encode()
    reference = await store.attach(data)
    flip(object_path(store, reference.digest))

    with pytest.raises(ObjectCorruptError):
        await store.read(reference)
    with pytest.raises(ObjectCorruptError):
        async with store.open_attachment(reference):
            pass
    with pytest.raises(ObjectCorruptError):
        await store.copy_to(reference, tmp_path / "out")
    assert not (tmp_path / "out").exists()

    assert (await store.put(data)).outcome == "healed"
    assert await store.read(reference) == data


async def test_a_changed_reference_is_told_apart_from_a_changed_object(store: Store) -> None:
    reference = await store.attach(TEXT)
    changed = Reference(digest=reference.digest, size=5, media_type="text/plain")

    with pytest.raises(HeaderMismatchError, match="size logged 5, actual 6"):
        await store.read(changed)
    assert await store.read(reference.digest) == TEXT


async def test_a_stream_gives_the_verified_bytes_in_any_cut(store: Store) -> None:
    data = os.urandom(9 * MIB).hex().encode()  # beyond what is held in memory
    reference = await store.attach(data)

    async with store.open_attachment(reference) as stream:
        assert stream.size == len(data)
        front = await stream.read(10)
        rest = [block async for block in stream]
        assert await stream.read() == b""
    async with store.open_attachment(reference) as stream:
        assert await stream.read() == data

    assert front + b"".join(rest) == data
    assert max(map(len, rest)) <= MIB


async def test_a_copy_replaces_whole_files_only(store: Store, tmp_path: Path) -> None:
    reference = await store.attach(TEXT)
    target = tmp_path / "out.txt"
    target.write_bytes(b"old")

    await store.copy_to(reference, target)

    assert target.read_bytes() == TEXT
    assert [path.name for path in tmp_path.iterdir() if path.name != "store"] == ["out.txt"]


async def test_stat_finds_the_type_in_the_bytes_and_uses_in_the_logs(store: Store) -> None:
    reference = await store.attach(b'{"a": 1}', name="a.json")
    session = await store.sessions.create("s-1")
    await session.append("message", {"list": [{"~/": reference}]})

    status = await store.stat(reference.digest)
    uses = [use async for use in store.uses(reference.digest)]

    assert (status.size, status.header.media_type) == (8, "application/json")
    assert [(use.session_id, use.seq, use.pointer) for use in uses] == [("s-1", 1, "/list/0/~0~1")]
    assert uses[0].reference == reference


async def test_a_prefix_names_an_object_if_it_is_unique(store: Store) -> None:
    references = await store.attach_many([str(number).encode() for number in range(20)])
    digest = references[7].digest

    assert await store.resolve(digest.hex[:10]) == digest
    assert await store.resolve(f"blake3:{digest.hex[:10]}") == digest
    assert await store.resolve(str(digest)) == digest
    with pytest.raises(ObjectMissingError):
        await store.resolve("000000")
    listed = [digest async for digest in store.list()]
    assert listed == sorted(reference.digest for reference in references)
    assert [d async for d in store.list(digest.hex[:2])] == [
        d for d in listed if d.hex.startswith(digest.hex[:2])
    ]


async def test_an_ambiguous_prefix_is_an_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two objects that share 6 digits are too rare to wait for; the names alone decide."""
    reference = await store.attach(TEXT)
    path = object_path(store, reference.digest)
    twin = path.with_name(path.name[:-1] + ("0" if path.name[-1] != "0" else "1"))
    twin.write_bytes(TEXT)

    with pytest.raises(AmbiguousReferenceError):
        await store.resolve(reference.digest.hex[:10])


async def test_a_page_shows_damage_and_what_lies_behind_it(store: Store, tmp_path: Path) -> None:
    session = await store.sessions.create("s-1")
    for text in ("first", "second", "third"):
        await session.append("message", {"text": text})
    await session.close()
    log = store.root / "sessions" / "s-1" / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"second", b"sekond"))

    await store.write_page("s-1", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    with pytest.raises(AttachstoreError) as caught:
        await store.export("s-1", tmp_path / "export")

    assert caught.value.code == "log-damaged"
    assert all(text in page for text in ("first", "sekond", "third"))
    assert (tmp_path / "export" / "manifest.json").exists()


# -- references in events ----------------------------------------------------------------------


async def test_an_event_may_not_refer_to_what_is_not_there(store: Store) -> None:
    reference = await store.attach(TEXT)
    session = await store.sessions.create("s-1")
    foreign = Reference(digest=Digest.of(b"never"), size=5, media_type="text/plain")

    with pytest.raises(DanglingReferenceError):
        await session.append("message", [foreign])
    object_path(store, reference.digest).unlink()
    with pytest.raises(DanglingReferenceError):
        await session.append("message", [reference])


async def test_a_reference_from_elsewhere_is_confirmed_before_it_is_logged(
    tmp_path: Path,
) -> None:
    async with Store.open(tmp_path / "store") as store:
        reference = await store.attach(TEXT)
    async with Store.open(tmp_path / "store") as other:
        session = await other.sessions.create("s-1")
        changed = Reference(digest=reference.digest, size=6, media_type="image/png", width=3)
        with pytest.raises(HeaderMismatchError):
            await session.append("message", changed)
        await session.append("message", reference)
        flip(object_path(other, reference.digest))

    async with Store.open(tmp_path / "store") as third:
        with pytest.raises(ObjectCorruptError):
            await (await third.sessions.load("s-1")).append("message", reference)


# -- faults ------------------------------------------------------------------------------------


async def test_a_disk_that_fails_gives_an_error_of_ours(tmp_path: Path) -> None:
    class Full(Disk):
        broken = False

        def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
            if self.broken:
                raise OSError(28, "No space left on device")
            return super().write(descriptor, data, offset_bytes)

    disk = Full()
    async with Store.open(tmp_path / "store", disk=disk) as store:
        disk.broken = True
        with pytest.raises(AttachstoreError) as caught:
            await store.attach(TEXT)
        assert caught.value.code == "storage-full"
        disk.broken = False
        assert await store.read(await store.attach(TEXT)) == TEXT


async def test_a_missing_source_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(SourceMissingError, match="no\\\\u202fway"):
        await store.attach(tmp_path / "no\u202fway.txt")


def test_importing_the_package_imports_nothing_heavy() -> None:
    """An agent that never attaches a picture should not pay for Pillow, nor for what scans."""
    heavy = (
        *("PIL", "magic", "pikepdf", "rich", "click", "jinja2", "sqlite3"),
        *("attachstore.integrity", "attachstore.replay", "attachstore.conversion"),
    )
    code = (
        "import sys, attachstore; attachstore.Store; "
        f"print([m for m in {heavy} if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert done.stdout == b"[]\n"
