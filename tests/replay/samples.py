"""A session made by hand, good and bad attachments in it, without a log on disk."""

import dataclasses
from typing import Any

from PIL import Image

from attachstore.attachment import Attachment, BytesContent, Header
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from attachstore.replay.steps import Resolver, Step
from attachstore.sessions.data import references_in
from attachstore.sessions.event import Event, Parent, SessionHeader, SessionView
from tests.replay.pictures import encoded, photo, screenshot


class SampleSession:
    """Objects in memory and the steps of events that refer to them."""

    def __init__(self, session_id: str = "s-1", **header: Any) -> None:
        self.backend = MemoryBackend()
        self.objects = ObjectStore(self.backend)
        self.events: list[Event] = []
        self.header = SessionHeader(
            id=session_id, created_at="2026-03-04T17:06:07.000000Z", **header
        )

    def commit(self, data: bytes, media_type: str, **fields: Any) -> Reference:
        """Store `data` as if it had been admitted."""
        sizes = {key: fields.pop(key, None) for key in ("width", "height")}
        header = Header(media_type=media_type, **sizes)
        attachment = Attachment(content=BytesContent(data), header=header, **fields)
        return self.objects.commit(attachment).reference

    def picture(self, image: Image.Image, kind: str, name: str | None, **options: Any) -> Reference:
        data = encoded(image, kind, **options)
        frames = 1 + len(options.get("append_images", ()))
        return self.commit(
            data,
            f"image/{kind}",
            width=image.width,
            height=image.height,
            frames=frames,
            name=name,
        )

    def append(self, type_: str, data: Any, **fields: Any) -> Event:
        seq = len(self.events) + 1
        day, second = divmod(seq * 37, 60 * 60)
        values: dict[str, Any] = {
            "seq": seq,
            "time": f"2026-03-{4 + day:02d}T17:{second // 60:02d}:{second % 60:02d}.000000Z",
            "type": type_,
            "data": data,
            "chain": f"{seq:032x}",
            "line": seq + 1,
            "offset_bytes": 300 + 400 * seq,
            "has_references": next(references_in(data), None) is not None,
        }
        self.events.append(Event(**values | fields))
        return self.events[-1]

    def steps(self) -> list[Step]:
        resolver = Resolver(self.objects)
        return [resolver.step(event) for event in self.events]

    def view(self, **changes: Any) -> SessionView:
        last = self.events[-1] if self.events else None
        whole = SessionView(
            header=self.header,
            head_seq=last.seq if last else 0,
            head_chain=last.chain if last else "0" * 32,
            size_bytes=300 + 400 * len(self.events),
            last_time=last.time if last else None,
            closers=(),
            tail=None,
            damage=None,
        )
        return dataclasses.replace(whole, **changes)


def small_session() -> SampleSession:
    """Two texts, each in an event of its own."""
    session = SampleSession()
    for name in ("a.txt", "b.txt"):
        session.append("message", session.commit(name.encode(), "text/plain", name=name))
    return session


def showcase() -> SampleSession:
    """A session with one of everything, as a reader would meet it."""
    session = SampleSession(
        "agents/night-build 2026-03-04",
        cwd="/home/kim/projects/harbour",
        parent=Parent(id="agents/night-build", seq=3, chain="3" * 32),
        meta={"title": "Why does the harbour map flicker?", "model": "sample-1", "tags": ["map"]},
    )
    jpeg = session.picture(photo(), "jpeg", "harbour at dusk.jpg", quality=88)
    png = session.picture(screenshot(), "png", "Screenshot 2025-03-04 at 5.06.07\u202fPM.png")
    session.append("session/start", {"cwd": "/home/kim/projects/harbour", "pid": 4711})
    session.append("turn/start", {"turn": 1})
    session.append("message", _says("user", "The map flickers. Here is what I see:", jpeg, png))
    answer = {
        "role": "assistant",
        "content": "The tiles at the water's edge are drawn twice.\n\nI will look at the render "
        "log and at the last frames of the animation.",
        "usage": {"input_tokens": 5210, "output_tokens": 88},
        "model": "sample-1",
    }
    session.append("message", answer)
    call = {"name": "run_shell", "arguments": {"command": "make render", "env": {"JOBS": 2}}}
    session.append("tool/call", call)
    found = {"type": "text", "text": "9000 tiles, 41 drawn twice"}
    session.append("tool/result", _says("tool", found, _log(session), _loop(session)))
    session.append("attachment", {"file": _report(session)})
    clip = session.commit(b"RIFF" + b"\0" * 400_000, "application/octet-stream", name="clip.bin")
    media = {"type": "media", "source": jpeg}
    session.append("message", _says("user", "Again, with sound:", media, clip))
    _append_broken(session, png)
    session.append("message", _says("assistant", "Found it: " + "the cache key. " * 300))
    session.append("turn/end", {"reason": "done", "steps": [1, 2, 3], "nested": {"de": {"ep": 1}}})
    return session


def _says(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


def _log(session: SampleSession) -> Reference:
    lines = (f"17:06:{n % 60:02d} tile {n:05d} drawn in {n % 17} ms\n" for n in range(9000))
    return session.commit("".join(lines).encode(), "text/plain", name="render.log")


def _loop(session: SampleSession) -> Reference:
    first, *others = (photo(240, 180, seed) for seed in range(2, 8))
    return session.picture(first, "gif", "loop.gif", save_all=True, append_images=others)


def _report(session: SampleSession) -> Reference:
    first, *others = (photo(200, 280, seed) for seed in range(20, 32))
    data = encoded(first, "pdf", save_all=True, append_images=others)
    return session.commit(data, "application/pdf", pages=12, name="report.pdf")


def _append_broken(session: SampleSession, png: Reference) -> None:
    """Event 9: an object that is gone, one with a wrong byte, a reference that was edited."""
    lost = session.picture(photo(seed=9), "webp", "gone.webp")
    torn = session.picture(photo(300, 300, 11), "png", "torn.png")
    wrong = dataclasses.replace(png, width=1281, name="edited.png")
    session.append("message", _says("user", "Compare with these:", lost, torn, wrong))
    del session.backend.objects[lost.digest]
    session.backend.objects[torn.digest] = b"\0" + session.backend.objects[torn.digest][1:]


ATTACKS = (
    "</script><script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "<svg onload=window.pwned=1>",
    "' onmouseover='window.pwned=1",
    "javascript:window.pwned=1",
    "<!-- timeline -->",
    "$title ${style} $$",
    "</style><style>*{display:none}</style>",
    '<meta http-equiv="refresh" content="0;url=http://127.0.0.1:9/">',
    "<iframe src=http://127.0.0.1:9/></iframe>",
    "photo\u202egnp.exe",
    "\x00\x1b[31m\x7f\x85\u2028\ufeff",
    "\ud800 lone",
    "x" * 100_000,
)


def hostile() -> SampleSession:
    """A session in which every text that somebody else chose tries to get out."""
    session = SampleSession(
        "".join(ATTACKS[:3]),
        cwd="/" + ATTACKS[1],
        parent=Parent(id=ATTACKS[0], seq=1, chain=ATTACKS[1]),
        meta={"title": ATTACKS[0] + "w" * 500, **{attack[:50]: attack for attack in ATTACKS}},
    )
    script = ATTACKS[0].encode()
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'>{ATTACKS[0]}</svg>"
    html = session.commit(b"<!doctype html><body>" + script, "text/html", name="page.html")
    drawn = session.commit(svg.encode(), "image/svg+xml", name="drawing.svg")
    picture = session.picture(photo(64, 48), "png", ATTACKS[1])
    for attack in ATTACKS:
        session.append(
            attack[:300], {attack: attack, "role": attack, "content": [attack, {attack: [attack]}]}
        )
    session.append("message", {"role": "user", "content": [html, drawn, picture, picture]})
    for name in ATTACKS:
        if name.isprintable() and len(name) < 1000:
            session.append("attachment", {"file": dataclasses.replace(picture, name=name, width=1)})
    deep: Any = picture
    for level in range(190):
        deep = {"in": deep} if level % 2 else [deep, level]
    session.append("deep", deep)
    session.append("wide", {f"key {n}": n for n in range(5000)} | {"last": html})
    session.append(
        "long", {"content": [f"part {n}" for n in range(5000)], "list": list(range(9999))}
    )
    session.append("odd", "only text", time="not a time", verified=False, seq=10**15)
    session.append("odd", None, seq=3)
    return session
