"""What a report says about itself, without any store."""

import json
from itertools import combinations

import pytest

from attachstore.cli.output import compact
from attachstore.digest import Digest
from attachstore.integrity.report import Finding, Kind, ScanReport, Severity, Use

DIGEST = Digest.of(b"x")


def finding(kind: Kind, **fields: object) -> Finding:
    return Finding(kind=kind, what="something", **fields)  # type: ignore[arg-type] - any field


def report(*kinds: Kind) -> ScanReport:
    made = ScanReport()
    for kind in kinds:
        (made.findings if kind.is_fault else made.notes).append(finding(kind))
    return made


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_every_kind_says_how_to_mend_it(kind: Kind) -> None:
    assert kind.mend.endswith(".")


def test_notes_leave_a_report_clean_and_faults_do_not() -> None:
    assert report().clean
    for kind in Kind:
        assert report(kind).clean is (kind.severity is Severity.NOTE) is not kind.is_fault


def test_the_worst_is_corrupt_before_missing_before_mismatch() -> None:
    """The order of the exit statuses: 4, 3, 5."""
    order = [Severity.CORRUPT, Severity.MISSING, Severity.MISMATCH]
    faults = [kind for kind in Kind if kind.is_fault]
    for one, other in combinations(faults, 2):
        worst = report(other, one).worst
        assert worst is not None
        assert order.index(worst.severity) == min(
            order.index(one.severity), order.index(other.severity)
        )
    assert report(Kind.UNREFERENCED).worst is None


def test_a_finding_as_json_leaves_out_what_does_not_apply() -> None:
    assert finding(Kind.FOREIGN_FILE, path="objects/x", size_bytes=0).to_json() == {
        "kind": "foreign-file",
        "what": "something",
        "mend": Kind.FOREIGN_FILE.mend,
        "path": "objects/x",
        "size_bytes": 0,
    }


def test_a_header_mismatch_as_json_names_field_logged_and_actual_value_and_who_uses_it() -> None:
    found = finding(
        Kind.HEADER_MISMATCH,
        digest=DIGEST,
        differences=(("width", "3", "4"),),
        uses=(Use("s-1", 7, "/content/0"),),
        uses_total=1,
    ).to_json()

    assert found["digest"] == str(DIGEST)
    assert found["differences"] == [{"field": "width", "logged": "3", "actual": "4"}]
    assert found["uses"] == [{"session": "s-1", "seq": 7, "pointer": "/content/0"}]
    assert found["uses_total"] == 1


def test_a_report_as_json_is_sorted_and_counts_every_kind() -> None:
    made = report(Kind.HEADER_MISMATCH, Kind.FOREIGN_FILE, Kind.OBJECT_CORRUPT)
    made.unreferenced.append(DIGEST, 5)
    made.subset = (1, 2)
    made.finish("/store/")

    written = json.loads(json.dumps(made.to_json()))
    assert [found["kind"] for found in written["findings"]] == [
        "object-corrupt",
        "header-mismatch",
    ]
    assert written["counts"] == {
        "object-corrupt": 1,
        "header-mismatch": 1,
        "unreferenced": 1,
        "foreign-file": 1,
    }
    assert written["clean"] is False
    assert written["worst"] == "object-corrupt"
    assert written["subset"] == [1, 2]
    assert written["unreferenced"] == {
        "objects": 1,
        "size_bytes": 5,
        "list": [{"digest": str(DIGEST), "size_bytes": 5}],
    }
    assert [note.kind for note in made.all_notes()] == [Kind.UNREFERENCED, Kind.FOREIGN_FILE]


@pytest.mark.parametrize("objects", [0, 1, 2, 3, 5])
def test_the_parts_of_a_report_are_the_whole(objects: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attachstore.integrity.report._PART_OBJECTS", 2)
    made = report(Kind.HEADER_MISMATCH, Kind.FOREIGN_FILE)
    for digest in sorted(Digest.of(bytes(number)) for number in range(objects)):
        made.unreferenced.append(digest, 5)

    assert b"".join(made.json_parts(compact)) == compact(made.to_json())


def test_paths_are_relative_to_the_store() -> None:
    made = ScanReport()
    made.notes = [
        finding(Kind.FOREIGN_FILE, path="/store/objects/x"),
        finding(Kind.FOREIGN_FILE, path="/elsewhere"),
    ]
    made.finish("/store/")

    assert [note.path for note in made.notes] == ["/elsewhere", "objects/x"]


def test_bytes_in_quarantine_are_not_offered_for_quarantine() -> None:
    assert "--quarantine" in finding(Kind.OBJECT_CORRUPT).mend
    assert "--quarantine" not in finding(Kind.OBJECT_CORRUPT, quarantined=True).mend
