"""Errors about media and the machine: disks, permissions, libraries, settings."""

from __future__ import annotations

from attachstore.errors.error import UnavailableError


class StorageFullError(UnavailableError):
    """No space, quota or allowed file size is left."""

    code = "storage-full"
    what = "there is no space left: {reason}"
    mend = "Free space, then repeat the call; nothing half-written was kept."
    reason: str


class StorageReadOnlyError(UnavailableError):
    """The medium is read-only, its permissions forbid the access, or the store was opened so."""

    code = "storage-read-only"
    what = "{obstacle}: {reason}"
    mend = "{remedy}"
    reason: str
    reading: bool = False
    """Whether it is reading that this user may not; nothing was to be written."""

    @property
    def obstacle(self) -> str:
        if self.reading:
            return "this user may not read it"
        return "permissions or a read-only medium stand in the way"

    @property
    def remedy(self) -> str:
        if self.reading:
            return "Give this user permission to read it, or run as its owner."
        return "To write, mount it writable; to read or write, mend the permissions."


class StorageIOError(UnavailableError):
    """The operating system reported an error on stored data."""

    code = "storage-io"
    what = "the disk failed: {reason}"
    mend = "Check the disk (dmesg, SMART). Nothing was promised; repeat the call when it is well."
    reason: str


class StorageUnsupportedError(UnavailableError):
    """The file system lacks something that durability needs."""

    code = "storage-unsupported"
    what = "the file system cannot do what the store needs: {reason}"
    mend = "Use a local file system with a journal, or open with `weak_durability=True`."
    reason: str


class StorePoisonedError(UnavailableError):
    """A directory sync failed after publishing; this handle promises nothing more."""

    code = "store-poisoned"
    what = "this store handle is unusable after a failed sync: {reason}"
    mend = "Check the disk, open the store again, and run `attachstore scan`."
    reason: str


class StoreForeignError(UnavailableError):
    """The directory belongs to something else."""

    code = "store-foreign"
    what = "the directory is not an attachstore store: {reason}"
    mend = "{hint}"
    reason: str
    hint: str = "Give an empty or new directory, or the path of a store."


class StoreVersionError(UnavailableError):
    """The store was written by a newer attachstore."""

    code = "store-version"
    what = "the store has format {found}, this attachstore reads format {supported}"
    mend = "Upgrade attachstore; nothing was changed."
    found: str
    supported: int


class ResourceExhaustedError(UnavailableError):
    """Out of memory, descriptors, threads or processes."""

    code = "resource-exhausted"
    what = "this machine ran out of {resource}: {reason}"
    mend = "Raise the limit or do less at once, then repeat the call."
    resource: str
    reason: str


class MissingDependencyError(UnavailableError):
    """A library that the call needs is not installed."""

    code = "missing-dependency"
    what = "{package} is not installed: {reason}"
    mend = "Install it: {command}"
    package: str
    reason: str
    command: str


class InvalidConfigurationError(UnavailableError):
    """A setting that does not parse or does not exist."""

    code = "invalid-configuration"
    what = "the setting {key} is not valid: {reason}"
    mend = "docs/reference/configuration.md lists the settings and their values."
    key: str
    reason: str
