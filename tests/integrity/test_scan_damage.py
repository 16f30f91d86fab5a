"""Random damage to a random store: the findings are the damage that was done, no more, no less."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from attachstore.integrity import Kind, Use
from attachstore.reference import Reference
from tests.integrity.workshop import Workshop, bare, png


@dataclass
class Scene:
    """A store, who uses which object, and what a scan has to say about it."""

    root: Path
    shop: Workshop
    references: list[Reference] = field(default_factory=list[Reference])
    uses: dict[int, list[Use]] = field(default_factory=dict[int, list[Use]])
    expected: set[tuple[Kind, str]] = field(default_factory=set[tuple[Kind, str]])
    touched: set[str] = field(default_factory=set[str])
    """Objects and sessions that are damaged already: one damage each."""

    def path(self, number: int) -> Path:
        name = self.references[number].digest.hex
        return self.root / "objects" / "blake3" / name[:2] / name

    def log(self, session: int) -> Path:
        return self.root / "sessions" / f"s-{session}" / "log.jsonl"

    def expect_of_object(self, kind: Kind, number: int) -> None:
        self.expected.add((kind, str(self.references[number].digest)))


def content(number: int) -> tuple[bytes, str]:
    if number % 2:
        return png(1 + number, 7), "image/png"
    return f"content {number}".encode(), "text/plain"


def build(root: Path, objects: int, sessions: list[list[int]]) -> Scene:
    """Each session refers to objects by number, one event each, and has an event without."""
    scene = Scene(root, bare(root))
    for number in range(objects):
        data, media_type = content(number)
        scene.references.append(scene.shop.put(data, media_type))
    for session, numbers in enumerate(sessions):
        known = [number % objects for number in numbers]
        events = [{"file": scene.references[number]} for number in known]
        scene.shop.log(f"s-{session}", "hello", *events, "bye")
        for seq, number in enumerate(known, 2):
            scene.uses.setdefault(number, []).append(Use(f"s-{session}", seq, "/file"))
    for number in set(range(objects)) - scene.uses.keys():
        scene.expect_of_object(Kind.UNREFERENCED, number)
    return scene


# -- damage; each takes a number that chooses where -----------------------------------------------


def corrupt(scene: Scene, number: int) -> None:
    path = scene.path(number)
    data = bytearray(path.read_bytes())
    data[number % len(data)] ^= 1 << (number % 8)
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)
    scene.expect_of_object(Kind.OBJECT_CORRUPT, number)
    scene.expected.discard((Kind.UNREFERENCED, str(scene.references[number].digest)))


def empty(scene: Scene, number: int) -> None:
    path = scene.path(number)
    path.chmod(0o644)
    path.write_bytes(b"")
    path.chmod(0o444)
    scene.expect_of_object(Kind.OBJECT_CORRUPT, number)
    scene.expected.discard((Kind.UNREFERENCED, str(scene.references[number].digest)))


def remove(scene: Scene, number: int) -> None:
    scene.path(number).unlink()
    _expect_gone(scene, number)


def misplace(scene: Scene, number: int) -> None:
    path = scene.path(number)
    path.rename(path.parent.parent / path.name)
    scene.expect_of_object(Kind.OBJECT_MISPLACED, number)
    _expect_gone(scene, number)


def _expect_gone(scene: Scene, number: int) -> None:
    if number in scene.uses:
        scene.expect_of_object(Kind.DANGLING_REFERENCE, number)
    scene.expected.discard((Kind.UNREFERENCED, str(scene.references[number].digest)))


def replace_by_directory(scene: Scene, number: int) -> None:
    scene.path(number).unlink()
    scene.path(number).mkdir()
    scene.expect_of_object(Kind.STORE_LAYOUT, number)
    scene.expected.discard((Kind.UNREFERENCED, str(scene.references[number].digest)))


def allow_writing(scene: Scene, number: int) -> None:
    scene.path(number).chmod(0o644)
    scene.expect_of_object(Kind.WRITABLE_OBJECT, number)


OBJECT_DAMAGE = (corrupt, empty, remove, misplace, replace_by_directory, allow_writing)


def tear(scene: Scene, session: int) -> None:
    with scene.log(session).open("ab") as log:
        log.write(b'{"seq":')
    scene.expected.add((Kind.UNCOMMITTED_TAIL, f"s-{session}"))


def flip_in_first_event(scene: Scene, session: int) -> None:
    """It refers to nothing, so that the uses stay what they are."""
    path = scene.log(session)
    path.write_bytes(path.read_bytes().replace(b"hello", b"jello"))
    scene.expected.add((Kind.LOG_DAMAGED, f"s-{session}"))


def flip_in_header(scene: Scene, session: int) -> None:
    path = scene.log(session)
    path.write_bytes(path.read_bytes().replace(b"created_at", b"treated_at", 1))
    scene.expected.add((Kind.LOG_DAMAGED, f"s-{session}"))


def make_foreign_file(scene: Scene, session: int) -> None:
    path = scene.log(session).with_name("notes")
    path.write_bytes(b"")
    scene.expected.add((Kind.FOREIGN_FILE, f"sessions/s-{session}/notes"))


LOG_DAMAGE = (tear, flip_in_first_event, flip_in_header, make_foreign_file)


def apply(
    scene: Scene, what: Callable[[Scene, int], None], number: int, *, key: str, count: int
) -> None:
    """Once for each object and session: damage on damage has no simple answer."""
    if count and f"{key}{number % count}" not in scene.touched:
        scene.touched.add(f"{key}{number % count}")
        what(scene, number % count)


@settings(max_examples=100)
@given(
    st.integers(1, 6),
    st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4),
    st.lists(st.tuples(st.sampled_from(OBJECT_DAMAGE), st.integers(0, 99)), max_size=4),
    st.lists(st.tuples(st.sampled_from(LOG_DAMAGE), st.integers(0, 99)), max_size=3),
)
def test_the_findings_are_exactly_the_damage(
    objects: int,
    sessions: list[list[int]],
    object_damage: list[tuple[Callable[[Scene, int], None], int]],
    log_damage: list[tuple[Callable[[Scene, int], None], int]],
) -> None:
    with tempfile.TemporaryDirectory() as made:
        scene = build(Path(made) / "store", objects, sessions)
        for what, number in object_damage:
            apply(scene, what, number, key="object ", count=objects)
        for what, number in log_damage:
            apply(scene, what, number, key="session ", count=len(sessions))

        report = scene.shop.scan()

        found = {
            (
                finding.kind,
                str(finding.digest or finding.session or finding.path),
            )
            for finding in (*report.findings, *report.all_notes())
        }
        assert found == scene.expected
        assert len(report.findings) + len([*report.all_notes()]) == len(scene.expected)
        by_digest = {str(scene.references[number].digest): number for number in range(objects)}
        for finding in report.findings:
            if finding.digest is not None:
                wanted = scene.uses.get(by_digest[str(finding.digest)], [])
                assert finding.uses == tuple(sorted(wanted))
        assert report.clean is not any(kind.is_fault for kind, _ in scene.expected)
