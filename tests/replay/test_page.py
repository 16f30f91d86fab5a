"""The page's source: what it holds, what can never get into it, and how large it gets."""

import base64
import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attachstore.disk import Disk
from attachstore.errors import DestinationError, LogDamagedError, StorageFullError
from attachstore.replay import page
from attachstore.replay.page import PageWriter, write_page
from attachstore.sessions.event import Damage
from attachstore.threads import CancelFlag, Cancelled
from tests.replay.pictures import photo
from tests.replay.samples import SampleSession, hostile, showcase
from tests.replay.test_markup import Reader

KNOWN_ATTRIBUTES = re.compile(
    r"id|class|href|src|alt|title|type|lang|charset|http-equiv|content|name|role|for|value|open"
    r"|hidden|dir|datetime|tabindex|data-(copy|same|outcome|outcomes|kind|kinds|type)|aria-\w+"
    r"|focusable|viewbox|preserveaspectratio|x|y|width|height|rx|cx|cy|r|d"
)


def written(session: SampleSession, target: Path, **options: Any) -> str:
    view = options.pop("view", session.view())
    write_page(session.steps(), target, view, session.objects, **options)
    return target.read_text("utf-8")


def assert_inert(source: str) -> Reader:
    """Our own script and style, and otherwise nothing that runs, loads or leads elsewhere."""
    read = Reader(source)
    tags = Counter(tag for tag, _ in read.tags)
    assert (tags["script"], tags["style"], tags["meta"], tags["title"]) == (1, 1, 6, 1)
    assert not tags.keys() & {"iframe", "object", "embed", "link", "base", "video", "audio", "math"}
    for tag, attributes in read.tags:
        for name, value in attributes.items():
            assert KNOWN_ATTRIBUTES.fullmatch(name), (tag, name)
            if name == "href":
                assert (value or "").startswith("#"), value
            if name == "src":
                assert re.match(r"data:image/(webp|png|jpeg);base64,", value or ""), value
    identifiers = Counter(it["id"] for _, it in read.tags if "id" in it)
    assert [name for name, count in identifiers.items() if count > 1] == []
    return read


def test_the_page_shows_what_the_log_says(tmp_path: Path) -> None:
    """Texts, names, types, sizes, pixels, frames, pages, digests, errors, the fork, the totals."""
    session = showcase()
    read = assert_inert(written(session, tmp_path / "page.html"))

    for expected in [
        "Why does the harbour map flicker?",
        "agents/night-build 2026-03-04",
        "Forked here from agents/night-build at event 3",
        "The tiles at the water's edge are drawn twice.",
        "harbour at dusk.jpg",
        "image/jpeg · 800 × 600",  # noqa: RUF001
        "6 frames",
        "12 pages",
        "17:06:00 tile 00000 drawn in 0 ms",
        "3 of 10 attachments cannot be given back as logged.",
        "object-missing",
        "width logged 1281, actual 1280",
        "27 % less",
    ]:
        assert expected in read.text.replace("\u00a0", " ")
    for step in session.steps():
        for resolved in step.attachments:
            assert str(resolved.reference.digest) in read.text


def test_a_page_without_trouble_says_so(tmp_path: Path) -> None:
    session = SampleSession()
    session.append("message", {"content": [session.picture(photo(64, 48), "png", "a.png")]})

    source = written(session, tmp_path / "page.html")

    assert "The attachment is there, whole and unchanged." in source
    assert 'class="verdict good"' in source


def test_an_empty_session_has_a_page(tmp_path: Path) -> None:
    """Created and never appended to."""
    read = assert_inert(written(SampleSession(), tmp_path / "page.html"))

    assert "Nothing is attached." in read.text


def test_hostile_content_is_shown_and_does_nothing(tmp_path: Path) -> None:
    source = written(hostile(), tmp_path / "page.html")

    read = assert_inert(source)

    assert "</script><script>window.pwned=1</script>" in read.text
    assert "\u202e" not in source
    assert "\\u202e" in read.text
    assert len(source) < 3_000_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "text", "type", "<b>", "a/b"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(st.tuples(st.text(max_size=10), json_values), max_size=4))
def test_any_event_has_its_place_on_the_page(tmp_path: Path, events: list[Any]) -> None:
    session = SampleSession()
    reference = session.commit(b"text", "text/plain", name="note.txt")
    for type_, data in events:
        session.append(type_, data)
        session.append(type_, {"content": [data, reference], "other": [[data, reference]]})

    read = assert_inert(written(session, tmp_path / "page.html"))

    cards = [it for tag, it in read.tags if tag == "figure" and "card" in (it["class"] or "")]
    assert len(cards) == 2 * len(events)


def test_only_its_own_style_and_script_may_be_applied(tmp_path: Path) -> None:
    """The policy names their hashes, so that even a hole in the escaping would run nothing."""
    source = written(showcase(), tmp_path / "page.html")
    metas = [it for tag, it in Reader(source).tags if tag == "meta" and "http-equiv" in it]
    policy = metas[0]["content"] or ""

    for tag in ("style", "script"):
        inside = source.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_html_and_svg_are_never_drawn(tmp_path: Path) -> None:
    """HTML appears as the text it is, SVG not at all."""
    session = SampleSession()
    html = session.commit(b"<h1 onclick=x>hello</h1>", "text/html", name="a.html")
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><circle r="9"/></svg>'
    drawn = session.commit(svg, "image/svg+xml", name="a.svg")
    session.append("message", [html, drawn])

    source = written(session, tmp_path / "page.html")

    assert "&lt;h1 onclick=x&gt;hello&lt;/h1&gt;" in source
    assert "<h1 onclick" not in source
    assert "circle r=" not in source
    assert "data:image/svg" not in source


def test_an_image_is_in_the_file_once(tmp_path: Path) -> None:
    """Every turn repeats the screenshot; the later places refer to the first."""
    session = SampleSession()
    picture = session.picture(photo(64, 48), "png", "a.png")
    for _ in range(5):
        session.append("message", {"content": [picture]})

    source = written(session, tmp_path / "page.html")

    assert source.count("data:image/webp") == 1
    assert source.count('data-same="e1-a1"') == 4


def test_thousands_of_pictures_make_a_usable_file(tmp_path: Path) -> None:
    """Within the budget; the pictures that are left out are counted."""
    session = SampleSession()
    for seed in range(60):
        session.append("message", session.picture(photo(64, 48, seed), "png", f"{seed}.png"))

    target = tmp_path / "page.html"
    with PageWriter(target, session.view(), session.objects, previews_bytes_max=20_000) as writer:
        for step in session.steps():
            writer.add(step)
        writer.publish()

    source = target.read_text("utf-8")
    drawn = source.count("data:image/webp")
    assert 0 < drawn < 60
    assert f"{60 - drawn} previews did not fit into the page." in source
    assert source.count('class="card ok"') == 60


def test_a_long_session_is_counted_whole_and_drawn_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit only events with problems are drawn: they are why one looks."""
    monkeypatch.setattr(page, "EVENTS_MAX", 10)
    session = SampleSession()
    lost = session.commit(b"lost", "text/plain", name="lost.txt")
    for seq in range(1, 31):
        session.append("message", lost if seq == 25 else {"n": seq})
    del session.backend.objects[lost.digest]

    source = written(session, tmp_path / "page.html")

    assert len(re.findall(r'<article id="e\d+"', source)) == 11
    assert 'href="#e25-a1"' in source
    assert 'id="e25-a1"' in source
    assert "19 events more were read and counted" in source
    assert "<b>30</b>" in source


def test_a_huge_text_is_an_excerpt(tmp_path: Path) -> None:
    """12 MB of tool output inline, as logs from elsewhere have it."""
    session = SampleSession()
    session.append("message", {"role": "tool", "content": "line of output\n" * 800_000})
    session.append("message", {"nested": {"blob": "x" * 12_000_000}})

    source = written(session, tmp_path / "page.html")

    assert len(source) < 60_000
    assert "11.4 MiB in all" in source


@pytest.mark.parametrize("kind", ["file", "folder", "no parent", "file as parent"])
def test_anything_but_an_earlier_page_is_left_alone(tmp_path: Path, kind: str) -> None:
    """`--html photo.jpg` by mistake must not cost the photo."""
    target = tmp_path / "page.html"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
    elif kind == "no parent":
        target = tmp_path / "x" / "page.html"
    else:
        (tmp_path / "x").write_text("mine")
        target = tmp_path / "x" / "page.html"
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}

    with pytest.raises(DestinationError):
        written(showcase(), target)

    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_an_earlier_page_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    written(SampleSession("first"), target)

    assert "second" in written(SampleSession("second"), target)
    assert list(tmp_path.iterdir()) == [target]


def test_damage_in_the_log_is_on_the_page_and_then_raised(tmp_path: Path) -> None:
    session = showcase()
    target = tmp_path / "page.html"

    def steps() -> Any:
        yield from session.steps()[:4]
        raise LogDamagedError(
            where="s/log.jsonl",
            session="s",
            line=6,
            offset_bytes=999,
            reason="the chain is broken",
            head_seq=4,
        )

    with pytest.raises(LogDamagedError):
        write_page(steps(), target, session.view(), session.objects)

    source = target.read_text("utf-8")
    assert "is damaged at line 6, byte 999: the chain is broken" in source
    assert "e4" in source
    assert 'id="e5"' not in source


def test_events_behind_damage_are_marked(tmp_path: Path) -> None:
    session = SampleSession()
    session.append("message", {})
    session.append("message", {"n": 5}, seq=5, verified=False)
    damage = Damage(line=3, offset_bytes=700, reason="no JSON")

    source = written(session, tmp_path / "page.html", view=session.view(damage=damage))

    assert "The log is damaged at line 3, byte 700: no JSON." in source
    assert "Events 2 to 4 are not readable in the log" in source
    assert "after damage, not chained" in source


class FullDisk(Disk):
    """Takes `left` bytes, then has no room."""

    left = 1

    def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
        if self.left <= 0:
            raise OSError(28, "no space")
        self.left -= len(data)
        return super().write(descriptor, data, offset_bytes)


def test_a_failed_page_leaves_nothing_and_the_old_one_stays(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    before = written(SampleSession("first"), target)

    with pytest.raises(StorageFullError):
        written(showcase(), target, disk=FullDisk())

    assert target.read_text("utf-8") == before
    assert list(tmp_path.iterdir()) == [target]


def test_a_cancelled_page_leaves_nothing(tmp_path: Path) -> None:
    session = showcase()
    cancel = CancelFlag()

    def run() -> None:
        with PageWriter(
            tmp_path / "page.html", session.view(), session.objects, cancel=cancel
        ) as writer:
            cancel.set()
            for step in session.steps():
                writer.add(step)

    with pytest.raises(Cancelled):
        run()

    assert list(tmp_path.iterdir()) == []


def test_events_do_not_pile_up_in_memory(tmp_path: Path) -> None:
    """What was drawn is in the file before the next event is; a block is held at most."""
    session = SampleSession()
    writer = PageWriter(tmp_path / "page.html", session.view(), session.objects)
    with writer:
        for _ in range(400):
            session.append("message", {"content": "word " * 2000})
            writer.add(session.steps()[-1])
            session.events.clear()
        held = len(writer._body._buffer)
        (draft,) = tmp_path.iterdir()

        assert held <= 1 << 20
        assert draft.stat().st_size + held == writer._body.size_bytes > 3_000_000
