"""Status of one object: what its bytes are, and which events refer to it.

Nothing of this is stored: the type is found in the bytes, the uses are found in the logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attachstore.admission.probe import probe
from attachstore.admission.reading import reader_of
from attachstore.admission.sniffing import find
from attachstore.attachment import Header
from attachstore.digest import Digest
from attachstore.errors import AttachstoreError, SessionMissingError
from attachstore.objects.offset_reader import OffsetReader
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from attachstore.sessions.data import references_in
from attachstore.sessions.listing import summarize
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.names import SessionName
from attachstore.threads import CancelFlag


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStatus:
    """What an object is, found in its verified bytes. `size` is in bytes."""

    digest: Digest
    size: int
    header: Header


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A place that refers to an object."""

    session_id: str
    seq: int
    pointer: str
    """Into the event's data: a JSON pointer (RFC 6901)."""
    reference: Reference


def status(
    objects: ObjectStore, wanted: Reference | Digest, cancel: CancelFlag | None = None
) -> ObjectStatus:
    """Verify the object, then find out what it is. A reference's own type is what is probed.

    Raises as `ObjectStore.read`.
    """
    digest = wanted.digest if isinstance(wanted, Reference) else wanted
    verified = objects.stream(wanted, cancel)
    verified.close()
    with objects.backend.open(digest) as stored:
        reader = reader_of(OffsetReader(stored.read_into, stored.size))
        media_type = wanted.media_type if isinstance(wanted, Reference) else find(reader)
        header = probe(reader, media_type) or Header(media_type=media_type)
    return ObjectStatus(digest=digest, size=verified.size, header=header)


def uses(logs: SessionLogs, digest: Digest, cancel: CancelFlag | None = None) -> Iterator[Use]:
    """Every reference to `digest` in every log, in the order of ids. Costs one reading of all.

    A damaged log is read on as far as later lines parse. A session that is deleted meanwhile
    refers to nothing.

    Whoever gets no error has got every use there is. After all that were found, the first error is
    raised: LogDamagedError, or why a log could not be read. What is hidden there may be a use.
    """
    failure: AttachstoreError | None = None
    for name in logs.medium.names():
        try:
            yield from _uses_in(logs, name, digest, cancel)
        except SessionMissingError:
            continue
        except AttachstoreError as error:
            if error.where == logs.medium.location:  # of all sessions: one database holds them
                error.where = logs.medium.where(name)
            failure = failure or error
    if failure is not None:
        raise failure


def _uses_in(
    logs: SessionLogs, name: SessionName, digest: Digest, cancel: CancelFlag | None
) -> Iterator[Use]:
    session_id = name.id
    if name.is_hashed:
        summary = summarize(logs.medium, name)
        session_id = name.id if summary is None else summary.id
    for run in logs.referring_runs(name, cancel=cancel):
        for event in run:
            if not event.has_references:
                continue
            for pointer, reference in references_in(event.data):
                if reference.digest == digest:
                    yield Use(
                        session_id=session_id,
                        seq=event.seq,
                        pointer=pointer,
                        reference=reference,
                    )
