"""Settings: flags > environment > attachstore.toml > defaults, and no misspelt name passes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from attachstore.admission.policy import DEFAULT_MEDIA_TYPES, AdmissionPolicy
from attachstore.admission.presets import PRESETS, ProviderPolicy
from attachstore.config import (
    EVENT_BYTES_MAX,
    LIMITS,
    LINE_BYTES_MAX,
    PRESET_NAMES,
    SETTINGS,
    Settings,
    load_settings,
)
from attachstore.errors import InvalidConfigurationError
from attachstore.sessions import record

MIB = 1 << 20


class Place:
    """A directory to stand in, a home, and an environment of its own."""

    def __init__(self, root: Path) -> None:
        self.here = root / "here"
        self.home = root / "home"
        self.here.mkdir()
        self.home.mkdir()
        self.environ = {"HOME": str(self.home)}

    def file(self, text: str, path: Path | None = None) -> Path:
        path = path or self.here / "attachstore.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, **flags: object) -> Settings:
        return load_settings(flags, environ=self.environ, directory=self.here)

    def refused(self, **flags: object) -> InvalidConfigurationError:
        with pytest.raises(InvalidConfigurationError) as caught:
            self.load(**flags)
        return caught.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_any_setting_the_defaults_hold(place: Place) -> None:
    settings = place.load()

    assert settings.policy() == AdmissionPolicy()
    assert settings.event_bytes_max == EVENT_BYTES_MAX == 16 * MIB
    assert settings.weak_durability is False
    assert settings.file is None


def test_the_default_store_is_the_users_and_does_not_depend_on_the_directory(place: Place) -> None:
    assert place.load().store == str(place.home / ".local/share/attachstore")

    place.environ["XDG_DATA_HOME"] = "/srv/data"

    assert place.load().store == "/srv/data/attachstore"


def test_each_place_overrides_the_one_below_it(place: Place) -> None:
    place.file('bytes_max = "1MiB"\nside_max = 1\nframes_max = 1\n')
    place.environ |= {"ATTACHSTORE_SIDE_MAX": "2", "ATTACHSTORE_FRAMES_MAX": "2"}

    policy = place.load(frames_max=3).policy()

    assert (policy.bytes_max, policy.side_max, policy.frames_max) == (MIB, 2, 3)


def test_a_flag_that_was_not_given_overrides_nothing(place: Place) -> None:
    place.environ["ATTACHSTORE_SIDE_MAX"] = "2"

    assert place.load(side_max=None).policy().side_max == 2


def test_every_field_of_the_policy_is_a_setting_and_no_other_limit_exists() -> None:
    """The names stand in config.py too, because importing the policy loads Pillow."""
    assert {field.name for field in dataclasses.fields(AdmissionPolicy)} == set(LIMITS)


def test_a_preset_is_the_ground_that_other_settings_change(place: Place) -> None:
    place.file('preset = "anthropic"\nside_max = 1568\n')

    policy = place.load().policy()

    assert isinstance(policy, ProviderPolicy)
    assert (policy.side_max, policy.bytes_max, policy.text_utf8) == (1568, 24_000_000, True)
    assert type(place.load(preset="none").policy()) is AdmissionPolicy


def test_there_is_a_setting_for_every_preset(place: Place) -> None:
    assert set(PRESET_NAMES) == set(PRESETS)
    with pytest.raises(InvalidConfigurationError, match="gemini"):
        place.load(preset="claude")


def test_the_defaults_that_help_shows_are_the_policys() -> None:
    policy = AdmissionPolicy()
    for key in LIMITS:
        if key != "media_types":
            assert SETTINGS[key].parse(SETTINGS[key].default) == getattr(policy, key), key
    assert policy.media_types == DEFAULT_MEDIA_TYPES
    default = SETTINGS["event_bytes_max"].default
    assert SETTINGS["event_bytes_max"].parse(default) == EVENT_BYTES_MAX


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        ("1048576", MIB),
        ("1_048_576", MIB),
        ("1MiB", MIB),
        ("1 mib", MIB),
        ("1MB", 1_000_000),
        ("4GiB", 4 << 30),
        ("10 B", 10),
        ("2kB", 2000),
    ],
)
def test_sizes_take_units(place: Place, written: str, size_bytes: int) -> None:
    place.environ["ATTACHSTORE_BYTES_MAX"] = written

    assert place.load().policy().bytes_max == size_bytes


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("bytes_max", "0"),
        ("bytes_max", "-1"),
        ("bytes_max", "1M"),
        ("bytes_max", "1.5MiB"),
        ("bytes_max", "MiB"),
        ("bytes_max", ""),
        ("bytes_max", "9" * 30),
        ("bytes_max", "9" * 19 + "TiB"),
        ("bytes_max", "٣"),
        ("event_bytes_max", "257MiB"),
        ("side_max", "many"),
        ("side_max", "1MiB"),
        ("side_max", "_1"),
        ("text_utf8", "perhaps"),
        ("media_types", ""),
        ("media_types", "image/png,,text/plain"),
        ("media_types", "png"),
        ("store", ""),
    ],
)
def test_a_bad_value_names_the_setting_and_the_variable(
    place: Place, key: str, written: str
) -> None:
    place.environ[f"ATTACHSTORE_{key.upper()}"] = written

    with pytest.raises(InvalidConfigurationError) as caught:
        place.load().policy()

    assert key in caught.value.key
    assert caught.value.where == f"ATTACHSTORE_{key.upper()}"


def test_no_line_is_longer_than_readers_take(place: Place) -> None:
    assert LINE_BYTES_MAX == record.LINE_BYTES_MAX
    place.environ["ATTACHSTORE_EVENT_BYTES_MAX"] = "256MiB"
    assert place.load().event_bytes_max == LINE_BYTES_MAX


@pytest.mark.parametrize(
    "line",
    [
        "bytes_max = true",
        "bytes_max = 1.5",
        "bytes_max = -1",
        "side_max = [1]",
        'text_utf8 = "perhaps"',
        "text_utf8 = 1",
        'media_types = [""]',
        "media_types = [1]",
        'media_types = ["png"]',
        "media_types = []",
        "store = 1",
    ],
)
def test_a_bad_value_in_the_file_names_the_file(place: Place, line: str) -> None:
    path = place.file(line)

    error = place.refused()

    assert (error.key, error.where) == (line.split(" ", maxsplit=1)[0], str(path))


@pytest.mark.parametrize("text", ["byte_max = 1", "[admission]\nbytes_max = 1"])
def test_an_unknown_name_in_the_file_is_refused(place: Place, text: str) -> None:
    """A misspelt limit must not silently be no limit."""
    path = place.file(text)

    error = place.refused()

    assert error.where == str(path)
    assert "no such setting" in str(error)


def test_an_unknown_variable_is_refused(place: Place) -> None:
    place.environ["ATTACHSTORE_BYTE_MAX"] = "1"

    error = place.refused()

    assert (error.key, error.where) == ("byte_max", "ATTACHSTORE_BYTE_MAX")


def test_variables_of_the_test_suite_and_of_completion_are_no_settings(place: Place) -> None:
    place.environ |= {"ATTACHSTORE_TEST_S3_URL": "x", "_ATTACHSTORE_COMPLETE": "bash_source"}

    place.load()


@pytest.mark.parametrize(
    "content", [b"bytes_max = ", b"\xff", b"[" * 100_000, b'bytes_max = "1MiB"\nbytes_max = 2']
)
def test_a_file_that_is_no_toml_is_named(place: Place, content: bytes) -> None:
    path = place.file("")
    path.write_bytes(content)

    error = place.refused()

    assert (error.key, error.where) == ("attachstore.toml", str(path))


def test_a_file_that_cannot_be_read_is_an_error_not_an_absence(place: Place) -> None:
    (place.here / "attachstore.toml").mkdir()

    assert "Is a directory" in str(place.refused())


def test_the_file_here_holds_alone_and_the_users_only_without_it(place: Place) -> None:
    """They are not merged: one file tells all there is to know."""
    users = place.file("side_max = 7", place.home / ".config/attachstore/attachstore.toml")

    assert place.load().file == users

    here = place.file("frames_max = 5")
    settings = place.load()

    assert settings.file == here
    assert settings.policy() == AdmissionPolicy(frames_max=5)


def test_a_file_can_be_named_or_done_without(place: Place) -> None:
    place.file("side_max = 7")
    place.file("side_max = 8", place.here / "other.toml")

    place.environ["ATTACHSTORE_CONFIG"] = "other.toml"
    assert place.load().policy().side_max == 8

    place.environ["ATTACHSTORE_CONFIG"] = ""
    assert place.load().policy().side_max == 8000


def test_a_named_file_must_be_there(place: Place) -> None:
    place.environ["ATTACHSTORE_CONFIG"] = "nowhere.toml"

    assert "No such file" in str(place.refused())


def test_a_relative_store_in_the_file_counts_from_the_file(place: Place) -> None:
    """The file is read from wherever the user stands; the store stays where it is."""
    path = place.file('store = "data"', place.home / ".config/attachstore/attachstore.toml")

    assert place.load().store == str(path.parent / "data")


def test_a_home_and_an_address_are_understood_as_store(place: Place) -> None:
    place.file('store = "file:///srv/store"')

    assert place.load().store == "file:///srv/store"


def test_bad_media_types_are_answered_with_the_form_they_were_given_in(place: Place) -> None:
    place.environ["ATTACHSTORE_MEDIA_TYPES"] = ""
    assert 'like "image/*,application/pdf"' in place.refused().reason

    del place.environ["ATTACHSTORE_MEDIA_TYPES"]
    place.file("media_types = []")
    assert 'like ["image/*", "application/pdf"]' in place.refused().reason


def test_media_types_are_a_list_or_separated_by_commas(place: Place) -> None:
    place.file('media_types = ["image/*", "application/pdf"]')
    from_file = place.load().policy().media_types
    place.environ["ATTACHSTORE_MEDIA_TYPES"] = "image/*, application/pdf"

    assert place.load().policy().media_types == from_file == {"image/*", "application/pdf"}


def test_all_of_it_can_be_let_in(place: Place) -> None:
    place.environ["ATTACHSTORE_MEDIA_TYPES"] = "*/*"

    assert place.load().policy() == AdmissionPolicy.any()
