"""File names of exported attachments: safe and unique on every common system."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attachstore.replay.filenames import FileNames, collision_key, safe_name

FALLBACK = "attachment-0123456789ab"

media_types = st.sampled_from(
    ["image/png", "image/jpeg", "application/pdf", "text/plain", "application/octet-stream"]
)
# Plain text rarely hits the edges, so pieces that have hurt somebody are mixed in.
SEPARATORS = (".", "..", " ", "/", "\\", ":", "~", "-", "\0", "\n", "\u2028")
DEVICES = ("CON", "nul", "COM1", "LPT¹", ".png", ".PNG", ".txt", "(2)")
CHARACTERS = ("\u202e", "\ud800", "\udce9", "\u200d", "\ufeff", "\ue000", "\u0378", "\u212a")
FOLDING = ("a\u0308", "ä", "ß", "İ", "\u0131", "ﬁ", "x" * 300, "😀" * 70, "\u0390" * 90)
pieces = st.sampled_from((*SEPARATORS, *DEVICES, *CHARACTERS, *FOLDING))
names = st.one_of(
    st.text(alphabet=st.characters(), max_size=40),
    st.lists(st.one_of(pieces, st.text(max_size=5)), max_size=6).map("".join),
)


def complaints(name: str) -> list[str]:
    """What is wrong with a file name, judged independently of the code under test."""
    stem = name.split(".", maxsplit=1)[0].rstrip(" ").upper()
    device = re.fullmatch(r"CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|CLOCK\$|(COM|LPT)[0-9¹²³]", stem)
    rules = {
        "empty": not name,
        "too long": len(name.encode(errors="surrogatepass")) > 255,
        "too long for NTFS": len(name.encode("utf-16-le", errors="surrogatepass")) > 510,
        "forbidden": bool(re.search(r'[<>:"/\\|?*\x00-\x1f\x7f-\x9f]', name)),
        "invisible": any(unicodedata.category(c) in {"Cf", "Cs", "Zl", "Zp"} for c in name),
        "not NFC": unicodedata.normalize("NFC", name) != name,
        "start": name.startswith((".", "-", "~", " ")),
        "end": name.endswith((".", " ")),
        "device": bool(device),
    }
    return [rule for rule, broken in rules.items() if broken]


@given(name=st.none() | names, media_type=media_types)
def test_any_name_becomes_a_safe_one(name: str | None, media_type: str) -> None:
    assert complaints(safe_name(name, media_type, FALLBACK)) == []


@given(given_names=st.lists(names, max_size=12), media_type=media_types)
def test_no_two_names_fall_together_on_any_file_system(
    given_names: list[str], media_type: str
) -> None:
    """Case-insensitive, and blind to NFC and NFD: macOS and Windows are both."""
    file_names = FileNames(reserved=("manifest.json",))
    chosen = [file_names.give(name, media_type, FALLBACK) for name in given_names]

    for fold in (str.casefold, str.upper, str.lower, collision_key):
        seen = {
            unicodedata.normalize("NFD", fold(unicodedata.normalize("NFD", name)))
            for name in [*chosen, "manifest.json"]
        }
        assert len(seen) == len(chosen) + 1
    assert [complaints(name) for name in chosen] == [[]] * len(chosen)


@given(name=names, media_type=media_types)
def test_a_safe_name_stays_as_it_is(name: str, media_type: str) -> None:
    """Exporting what was exported changes no name."""
    once = safe_name(name, media_type, FALLBACK)
    assert safe_name(once, media_type, FALLBACK) == once


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../../../tmp/evil.txt", "evil.txt"),
        ("/etc/cron.d/evil", "evil.txt"),
        ("..\\..\\evil.txt", "evil.txt"),
        ("C:\\evil.txt", "evil.txt"),
        ("a/../../b.txt", "b.txt"),
        (".", f"{FALLBACK}.txt"),
        ("..", f"{FALLBACK}.txt"),
        ("~/x", "x.txt"),
        ("~root", "_~root.txt"),
        ("file:///etc/passwd", "passwd.txt"),
        ("report/versions/notes.txt", "notes.txt"),
        ("CON", "_CON.txt"),
        ("NUL.txt", "_NUL.txt"),
        ("nul .txt", "_nul .txt"),
        ("aux.tar.gz", "_aux.tar.gz"),
        ("COM1.log", "_COM1.log"),
        ("LPT¹", "_LPT¹.txt"),
        ("x.exe.", "x.exe"),
        ("x.txt ", "x.txt"),
        ("a:b.txt", "a_b.txt"),
        (".bashrc", "_.bashrc.txt"),
        ("-rf", "_-rf.txt"),
        ("caf\udce9.txt", "caf_.txt"),
        ("gnp.\u202etxt", "gnp.txt"),
        ("a\u0308.md", "ä.md"),
        ("Bild um\u00a017.06.txt", "Bild um\u00a017.06.txt"),
        ("v1.2", "v1.2.txt"),
        (None, f"{FALLBACK}.txt"),
    ],
)
def test_names_from_the_field(name: str | None, expected: str) -> None:
    """Names of public bug reports: traversal, devices, surrogates, trailing dots, macOS spaces."""
    assert safe_name(name, "text/plain", FALLBACK) == expected


@pytest.mark.parametrize(
    ("name", "media_type", "expected"),
    [
        ("shot", "image/png", "shot.png"),
        ("shot.PNG", "image/png", "shot.PNG"),
        ("photo.jpeg", "image/jpeg", "photo.jpeg"),
        ("invoice.pdf", "image/png", "invoice.pdf.png"),
        ("run.py", "text/plain", "run.py"),
        ("wheel.whl", "application/zip", "wheel.whl"),
        ("page", "text/html", "page.html"),
        ("thing", "application/x-unknown", "thing.bin"),
    ],
)
def test_the_extension_is_kept_or_follows_the_bytes(
    name: str, media_type: str, expected: str
) -> None:
    assert safe_name(name, media_type, FALLBACK) == expected


def test_equal_names_are_numbered_before_the_extension() -> None:
    file_names = FileNames(reserved=("manifest.json",))
    given_names = ["a.txt", "A.TXT", "a (2).txt", "a.txt", "manifest.json", "ä.txt", "a\u0308.txt"]

    chosen = [file_names.give(name, "text/plain", FALLBACK) for name in given_names]

    assert chosen == [
        "a.txt",
        "A (2).TXT",
        "a (2) (2).txt",
        "a (3).txt",
        "manifest (2).json",
        "ä.txt",
        "ä (2).txt",
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("straße.txt", "STRASSE.txt"),
        ("\ufb01le.txt", "file.txt"),
        ("\u017fhot.txt", "Shot.txt"),
        ("\u0131.txt", "I.txt"),
        ("\u2460.txt", "1.txt"),
        ("\u1fb3.txt", "\u0391\u0399.txt"),
    ],
)
def test_names_that_some_file_system_takes_for_one_are_told_apart(one: str, other: str) -> None:
    """Each folds by rules of its own; what any of them might fold is numbered."""
    file_names = FileNames()

    chosen = [file_names.give(name, "text/plain", FALLBACK) for name in (one, other)]

    assert chosen[1] == other.replace(".txt", " (2).txt")


def test_long_names_keep_their_extension_and_their_number() -> None:
    """255 bytes is what every common file system takes; the cut never splits a character."""
    file_names = FileNames()
    chosen = [file_names.give("é" * 400 + ".txt", "text/plain", FALLBACK) for _ in range(3)]

    assert chosen[0].endswith("é.txt")
    assert chosen[2].endswith("é (3).txt")
    assert all(250 < len(name.encode()) <= 255 for name in chosen)
