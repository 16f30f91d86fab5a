"""The page in a real browser: it looks, filters and copies, and nothing in it acts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from attachstore.replay.page import write_page
from tests.replay.pictures import photo
from tests.replay.samples import SampleSession, hostile, showcase

pytestmark = pytest.mark.browser

CHROMIUM = "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


class Look:
    """A page of a session, open, with everything it said or asked for."""

    def __init__(self, browser: Browser, path: Path, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.context.route("**/*", self._note)
        self.page.goto(path.as_uri())

    def _note(self, route: Route) -> None:
        self.asked.append(route.request.url)
        route.continue_()

    def events_shown(self) -> list[str]:
        return self.page.locator(".timeline > li:not(.divider):visible .seq").all_inner_texts()


@pytest.fixture(scope="module")
def showcase_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(showcase(), tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(hostile(), tmp_path_factory.mktemp("hostile") / "page.html")


def made(session: SampleSession, path: Path) -> Path:
    write_page(session.steps(), path, session.view(), session.objects)
    return path


@pytest.fixture
def look(browser: Browser, showcase_page: Path) -> Iterator[Look]:
    look = Look(browser, showcase_page, viewport={"width": 1200, "height": 900})
    yield look
    look.context.close()


def test_it_loads_without_a_word_and_without_a_request(look: Look, showcase_page: Path) -> None:
    """Self-contained: opening it on a plane, or years later, shows the same."""
    look.page.wait_for_timeout(200)

    assert look.said == []
    assert [url for url in look.asked if not url.startswith("data:")] == [showcase_page.as_uri()]


def test_thumbnails_decode_and_repeated_ones_are_borrowed(look: Look) -> None:
    sizes = look.page.locator(".thumb img").evaluate_all(
        "images => images.map(it => [it.complete, it.naturalWidth > 0, it.dataset.same || null])"
    )

    assert sizes == [
        [True, True, None],
        [True, True, None],
        [True, True, None],
        [True, True, "e3-a1"],
    ]


def test_hostile_content_does_not_run(browser: Browser, hostile_page: Path) -> None:
    """Even after every fold was opened and a card was hovered over."""
    look = Look(browser, hostile_page)
    page = look.page

    page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")
    page.locator(".card").first.hover()
    page.wait_for_timeout(200)

    assert page.evaluate("window.pwned") is None
    assert look.said == []
    assert len([url for url in look.asked if not url.startswith("data:")]) == 1
    assert page.locator("iframe, object, embed, script:not(body > script)").count() == 0
    assert "</script><script>window.pwned=1</script>" in page.locator("h1").inner_text()
    look.context.close()


@pytest.mark.parametrize("name", ["showcase", "hostile"])
def test_no_width_scrolls_sideways(
    browser: Browser, showcase_page: Path, hostile_page: Path, name: str
) -> None:
    """Long names, unbroken words and deep trees wrap, on a phone too."""
    look = Look(browser, showcase_page if name == "showcase" else hostile_page)
    look.page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")

    for width in (320, 360, 600, 1200):
        look.page.set_viewport_size({"width": width, "height": 740})
        assert look.page.evaluate("document.documentElement.scrollWidth") <= width
    look.context.close()


def test_filters_choose_events(look: Look) -> None:
    page = look.page
    shown = page.locator("#shown")
    assert len(look.events_shown()) == 11

    page.select_option("#filter-outcome", "=!")
    assert look.events_shown() == ["#9"]
    assert shown.inner_text() == "1 of 11 shown"
    page.select_option("#filter-outcome", "=*")
    assert look.events_shown() == ["#3", "#6", "#7", "#8", "#9"]
    page.select_option("#filter-kind", "=document")
    assert look.events_shown() == ["#7"]
    page.select_option("#filter-type", "=message")
    assert look.events_shown() == []
    assert page.locator("#nothing").is_visible()
    for name in ("outcome", "type", "kind"):
        page.select_option(f"#filter-{name}", "")
    assert shown.inner_text() == "11 events"


def test_a_link_shows_the_event_it_leads_to(look: Look) -> None:
    """From the list of problems, also when the filters hide the event."""
    look.page.select_option("#filter-type", "=turn/end")
    look.page.locator(".verdict a").first.click()

    look.page.locator("#e9-a1").wait_for(state="visible")  # the page is told a moment later
    assert len(look.events_shown()) == 11


def test_a_click_copies_the_whole_digest(look: Look, showcase_page: Path) -> None:
    look.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = look.page.locator("button.digest").first

    button.click()

    copied = look.page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"blake3:[0-9a-f]{64}", copied)
    assert copied == button.locator("code").inner_text()


def test_the_keyboard_reaches_everything(look: Look) -> None:
    """Skip link first, then what can be pressed, in reading order, with a visible focus."""
    reached: list[str] = []
    for _ in range(14):
        look.page.keyboard.press("Tab")
        reached.append(
            look.page.evaluate("document.activeElement.className || document.activeElement.id")
        )
    outline = look.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")

    assert reached[0] == "skip"
    assert [it for it in reached if it.startswith("filter-")] == [
        "filter-outcome",
        "filter-type",
        "filter-kind",
    ]
    assert "seq" in reached
    assert outline == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_ground(
    browser: Browser, showcase_page: Path, scheme: Any
) -> None:
    """Contrast of at least 4.5 (WCAG 2.2, 1.4.3) for every text in sight, in both schemes."""
    look = Look(browser, showcase_page, color_scheme=scheme)

    assert look.page.evaluate(CONTRASTS_BELOW) == []
    look.context.close()


CONTRASTS_BELOW = """() => {
  const channel = (value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (node) => {
    for (let it = node; it; it = it.parentElement) {
      const colour = parse(getComputedStyle(it).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !node.checkVisibility()) continue;
    const [one, other] = [parse(getComputedStyle(node).color), ground(node)].map(light);
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) low.add(`${node.className} ${texts.currentNode.data} ${ratio.toFixed(2)}`);
  }
  return [...low];
}"""


def test_it_is_whole_without_scripts(browser: Browser, showcase_page: Path) -> None:
    """A viewer that runs nothing shows everything but the filters."""
    look = Look(browser, showcase_page, java_script_enabled=False)

    assert look.page.locator("#controls").is_hidden()
    assert len(look.events_shown()) == 11
    look.context.close()


def test_it_prints_with_whole_digests(look: Look) -> None:
    look.page.emulate_media(media="print")

    assert look.page.locator("#controls").is_hidden()
    digest = look.page.locator(".digest code").first
    assert digest.evaluate("it => it.scrollWidth <= it.clientWidth + 1")


def test_a_long_session_opens(browser: Browser, tmp_path: Path) -> None:
    """1 500 events, each with a picture: it loads, filters and stays within its budget."""
    session = SampleSession()
    picture = [session.picture(photo(64, 48, seed), "png", f"{seed}.png") for seed in range(20)]
    for seq in range(1500):
        session.append("message", {"role": "user", "content": [f"look {seq}", picture[seq % 20]]})
    path = made(session, tmp_path / "page.html")
    look = Look(browser, path)

    look.page.select_option("#filter-kind", "=image")

    assert look.said == []
    assert look.page.locator("#shown").inner_text() == "1,500 of 1,500 shown"
    assert path.stat().st_size < 3_000_000
    look.context.close()
