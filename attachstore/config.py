"""Settings: flags > environment > attachstore.toml > defaults.

A setting has one name in three spellings: `bytes_max` in the file, `ATTACHSTORE_BYTES_MAX` in the
environment, `--bytes-max` on the command line. A name that does not exist, or a value that does
not parse, is an error that names the setting and the place: a misspelt limit must not silently
be no limit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attachstore.errors import InvalidConfigurationError

if TYPE_CHECKING:  # it imports Pillow, which `--help` has no use for
    from attachstore.admission.policy import AdmissionPolicy

FILE_NAME = "attachstore.toml"
PREFIX = "ATTACHSTORE_"
FILE_VARIABLE = "ATTACHSTORE_CONFIG"
EVENT_BYTES_MAX = 16 << 20
LINE_BYTES_MAX = 256 << 20
"""As attachstore/sessions/record.py has it; named here too, because importing that takes long."""

_FILE_BYTES_MAX = 1 << 20  # a cut file does not parse
# Variables with our prefix that are no settings: the test suite's.
_FOREIGN_PREFIXES = ("ATTACHSTORE_TEST_",)
_UNITS = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
# Twenty digits are more than any limit; int() takes the underscores.
_COUNT = re.compile(r"[0-9](?:_?[0-9]){0,19}", re.ASCII)
_SIZE = re.compile(rf"({_COUNT.pattern})\s*([a-z]*)", re.ASCII)
_SWITCH = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def _path(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a path is expected")
    if not value.startswith("~"):
        return value
    try:  # no shell has done it in a file, and not every one does it after an equals sign
        return str(Path(value).expanduser())
    except RuntimeError:
        raise ValueError("a path with a known home is expected") from None


def _count(value: object) -> int:
    if isinstance(value, str):
        value = int(value) if _COUNT.fullmatch(value.strip()) else None
    if type(value) is not int or not 0 < value < 2**63:
        raise ValueError("a whole number above 0 is expected")
    return value


def _size(value: object) -> int:
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip().lower())
        known = match is not None and match[2] in _UNITS
        value = int(match[1]) * _UNITS[match[2]] if match is not None and known else None
    if type(value) is not int or not 0 < value < 2**63:
        raise ValueError("a size above 0 is expected, like 1048576, 100MiB or 4GB")
    return value


def _line_size(value: object) -> int:
    size_bytes = _size(value)
    if size_bytes > LINE_BYTES_MAX:
        raise ValueError("a size of at most 256MiB is expected")
    return size_bytes


def _switch(value: object) -> bool:
    if isinstance(value, str):
        value = _SWITCH.get(value.strip().lower())
    if value is True or value is False:
        return value
    raise ValueError("true or false is expected")


def _media_types(value: object) -> frozenset[str]:
    example = '["image/*", "application/pdf"]'
    if isinstance(value, str):
        example = '"image/*,application/pdf"'
        value = [part.strip() for part in value.split(",")]
    is_several = isinstance(value, (list, tuple, set, frozenset))
    items = list(cast("Iterable[object]", value)) if is_several else []
    if not items or not all(isinstance(item, str) and "/" in item for item in items):
        raise ValueError(f"types are expected, like {example}")
    return frozenset(cast("list[str]", items))


PRESET_NAMES = ("anthropic", "openai", "gemini")
SESSION_MEDIA = ("jsonl", "sqlite")
"""As attachstore/opening.py has them; named here too, because importing that loads the store."""
_NO_PRESET = "none"


def _preset(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() in {_NO_PRESET, *PRESET_NAMES}:
        return value.strip().lower()
    raise ValueError(f"one of {', '.join((_NO_PRESET, *PRESET_NAMES))} is expected")


def _sessions(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() in SESSION_MEDIA:
        return value.strip().lower()
    raise ValueError(f"one of {', '.join(SESSION_MEDIA)} is expected")


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set: its name, how its value is read, and what it means."""

    key: str
    parse: Callable[[object], Any]
    """Raises ValueError with what is expected instead."""
    default: str
    """As `--help` and docs/reference/configuration.md show it."""
    help: str

    @property
    def variable(self) -> str:
        return PREFIX + self.key.upper()

    @property
    def flag(self) -> str:
        return "--" + self.key.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        return self.parse is _switch

    @property
    def metavar(self) -> str:
        """What `--help` calls its value."""
        return _METAVARS[self.parse]


_METAVARS: Mapping[Callable[[object], Any], str] = {
    _path: "PATH",
    _count: "N",
    _size: "SIZE",
    _line_size: "SIZE",
    _switch: "BOOL",
    _media_types: "TYPE,...",
    _preset: "NAME",
    _sessions: "MEDIUM",
}

_SETTINGS = (
    Setting("store", _path, "~/.local/share/attachstore", "The store's directory."),
    Setting(
        "weak_durability",
        _switch,
        "false",
        "Accept a file system that cannot sync, and its losses.",
    ),
    Setting(
        "event_bytes_max", _line_size, "16MiB", "Longest log line of an event, at most 256MiB."
    ),
    Setting(
        "sessions",
        _sessions,
        SESSION_MEDIA[0],
        "Where a new store keeps its session logs: jsonl (files) or sqlite (one database).",
    ),
    Setting(
        "preset",
        _preset,
        _NO_PRESET,
        "The limits of a provider: anthropic, openai or gemini; other settings change them.",
    ),
)
_LIMITS = (
    Setting("bytes_max", _size, "100MiB", "Largest attachment."),
    Setting("pixels_max", _count, "50000000", "Most pixels of a frame, width times height."),
    Setting("side_max", _count, "8000", "Longest side of a picture, in pixels."),
    Setting("frames_max", _count, "1000", "Most frames of an animation."),
    Setting("frames_pixels_max", _count, "200000000", "Most pixels of all frames together."),
    Setting(
        "media_types",
        _media_types,
        "what model providers take",
        "Types that are let in, like 'image/*,application/pdf'; '*/*' is every type.",
    ),
    Setting("metadata_bytes_max", _size, "16MiB", "Most metadata of a picture, unpacked."),
    Setting("archive_entries_max", _count, "10000", "Most entries of a ZIP, DOCX, ..."),
    Setting("archive_bytes_max", _size, "4GiB", "Most bytes a ZIP, DOCX, ... unpacks to."),
    Setting("text_utf8", _switch, "false", "Insist that text is UTF-8."),
    Setting("encrypted_documents", _switch, "false", "Let in documents that need a password."),
    Setting("broken_documents", _switch, "false", "Let in documents with a broken structure."),
)
SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in (*_SETTINGS, *_LIMITS)}
LIMITS = tuple(setting.key for setting in _LIMITS)
"""The fields of AdmissionPolicy; named here too, because importing it loads Pillow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for this run. `limits` are the fields of AdmissionPolicy that were set."""

    store: str
    weak_durability: bool
    event_bytes_max: int
    sessions: str | None
    """None: the medium that the store has, or the default one for a new store."""
    preset: str | None
    limits: Mapping[str, Any]
    file: Path | None
    """The attachstore.toml that was read, if any."""

    def policy(self) -> AdmissionPolicy:
        """The admission policy. Raises InvalidConfigurationError for limits that exclude it."""
        # Pillow is loaded for commands that admit something, not for `--help` or `ls`.
        from attachstore.admission.policy import AdmissionPolicy  # noqa: PLC0415
        from attachstore.admission.presets import PRESETS  # noqa: PLC0415

        make = AdmissionPolicy if self.preset is None else PRESETS[self.preset]
        try:
            return make(**self.limits)
        except ValueError as error:
            raise InvalidConfigurationError(
                where="admission policy", key=", ".join(sorted(self.limits)), reason=str(error)
            ) from None


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Settings:
    """Read the settings from all four places; a flag that is None was not given.

    `directory` is where a relative path counts from and attachstore.toml is looked for first
    (default: the current one).

    Raises:
        InvalidConfigurationError: an unknown name or a bad value, with the place it stands at.
    """
    environ = os.environ if environ is None else environ
    directory = Path() if directory is None else directory  # which may have been removed
    file = find_file(environ, directory)
    found: dict[str, Any] = {}
    if file is not None:
        found |= _from_file(file)
    found |= _from_environment(environ)
    for key, value in (flags or {}).items():
        if value is not None:
            found[key] = parse(key, value, SETTINGS[key].flag)
    preset = found.pop("preset", _NO_PRESET)
    store = found.pop("store", None) or str(_data_home(environ) / "attachstore")
    return Settings(
        store=store,
        weak_durability=found.pop("weak_durability", False),
        event_bytes_max=found.pop("event_bytes_max", EVENT_BYTES_MAX),
        sessions=found.pop("sessions", None),
        preset=None if preset == _NO_PRESET else preset,
        limits=found,
        file=file,
    )


def parse(key: str, value: object, place: str) -> Any:
    """The value of the setting `key` as found at `place`. Raises InvalidConfigurationError."""
    setting = SETTINGS.get(key)
    if setting is None:
        raise InvalidConfigurationError(where=place, key=key, reason="there is no such setting")
    try:
        return setting.parse(value)
    except ValueError as error:
        shown = ascii(value)[:80]
        raise InvalidConfigurationError(
            where=place, key=key, reason=f"{error}, not {shown}"
        ) from None


def find_file(environ: Mapping[str, str], directory: Path) -> Path | None:
    """The file that holds: $ATTACHSTORE_CONFIG, else here, else in the user's configuration.

    One file holds, they are not merged. An empty $ATTACHSTORE_CONFIG means: none.
    """
    named = environ.get(FILE_VARIABLE)
    if named is not None:
        return directory / Path(named).expanduser() if named else None
    home = Path(environ.get("XDG_CONFIG_HOME") or _home(environ) / ".config")
    for path in (directory / FILE_NAME, home / "attachstore" / FILE_NAME):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            # It is there and cannot be looked at: reading it says why.
            return path
        return path
    return None


def _from_file(path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most runs have no file

    place = ascii(str(path))[1:-1]
    try:
        with path.open("rb") as file:
            values = tomllib.loads(file.read(_FILE_BYTES_MAX).decode("utf-8"))
    except OSError as error:
        reason = f"it cannot be read: {os.strerror(error.errno or 0)}"
        raise InvalidConfigurationError(where=place, key=FILE_NAME, reason=reason) from None
    except (ValueError, RecursionError) as error:
        raise InvalidConfigurationError(where=place, key=FILE_NAME, reason=str(error)) from None
    found = {key: parse(key, value, place) for key, value in values.items()}
    if "store" in found:
        found["store"] = _beside(path, found["store"])
    return found


def _beside(file: Path, store: str) -> str:
    """A relative path in a file counts from the file, whoever reads it from wherever."""
    if "://" in store:
        return store
    return str(file.absolute().parent / store)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        name.removeprefix(PREFIX).lower(): parse(name.removeprefix(PREFIX).lower(), value, name)
        for name, value in environ.items()
        if name.startswith(PREFIX)
        and name != FILE_VARIABLE
        and not name.startswith(_FOREIGN_PREFIXES)
    }


def _data_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_DATA_HOME") or _home(environ) / ".local" / "share")


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())
