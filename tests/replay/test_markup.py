"""Escaping, and the few words that numbers are put into."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attachstore.replay.markup import Html, count_text, element, excerpt, join, size_text, text


class Reader(HTMLParser):
    """What a parser sees: tags with their attributes, and text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(given_text=st.text(alphabet=st.characters()))
def test_any_text_is_text_to_a_parser(given_text: str) -> None:
    """In content and in attributes: one tag, and a text that says the same."""
    read = Reader(element("p", given_text, title=given_text))

    assert [tag for tag, _ in read.tags] == ["p"]
    assert read.tags[0][1].keys() == {"title"}
    assert read.tags[0][1]["title"] == read.text


@given(given_text=st.text(alphabet=st.characters()))
def test_what_would_act_is_shown(given_text: str) -> None:
    """Controls, bidi overrides and surrogates become visible, and the result is UTF-8."""
    shown = text(given_text)

    shown.encode("utf-8")
    assert all(it.isprintable() or it in "\n\t" or ord(it) >= 0xA0 for it in shown)
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def test_markup_is_not_escaped_twice_and_sums_are_plain_again() -> None:
    """A mistake shows as tags on the page; it is never a hole."""
    bold = element("b", "1 < 2")

    assert join([bold, " & "]) == "<b>1 &lt; 2</b> &amp; "
    assert isinstance(join([bold]), Html)
    assert not isinstance(bold + bold, Html)


def test_attributes_are_left_out_or_bare() -> None:
    drawn = element("input", hidden=True, disabled=False, id=None, class_="a", data_kind="b", max=0)

    assert drawn == '<input hidden class="a" data-kind="b" max="0">'


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1_048_575, "1.0 MiB"),
        (12_345_678, "11.8 MiB"),
        (2**63 - 1, "8.0 EiB"),
    ],
)
def test_sizes_are_readable(size_bytes: int, expected: str) -> None:
    assert size_text(size_bytes) == expected


def test_counts_agree_with_their_noun() -> None:
    assert [count_text(number, "event") for number in (0, 1, 2, 12_000)] == [
        "0 events",
        "1 event",
        "2 events",
        "12,000 events",
    ]


@given(given_text=st.text(max_size=200), chars_max=st.integers(1, 100))
def test_an_excerpt_is_the_front_and_says_how_much_is_missing(
    given_text: str, chars_max: int
) -> None:
    front, left_out = excerpt(given_text, chars_max)

    assert given_text.startswith(front)
    assert len(front) + left_out == len(given_text)
    assert len(front) <= chars_max or not left_out


def test_an_excerpt_ends_at_a_word() -> None:
    assert excerpt("one two three four", 10) == ("one two", 11)
    assert excerpt("x" * 50, 10) == ("x" * 10, 40)
