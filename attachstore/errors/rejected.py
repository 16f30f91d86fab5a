"""Errors about the caller's input: bytes, names, sources, events. The same call fails again."""

from __future__ import annotations

from attachstore.errors.error import AdmissionError, EventError, RejectedError


class EmptyContentError(AdmissionError):
    """0 bytes, not declared as text."""

    code = "empty-content"
    what = "there are no bytes to attach"
    mend = "Declare a text type if an empty text is meant; otherwise produce the file again."


class TooManyBytesError(AdmissionError):
    """More bytes than the policy's `bytes_max`. A stream is read one byte past the limit only."""

    code = "too-many-bytes"
    what = "the attachment is larger than {bytes_max} bytes"
    mend = "Shrink it, or raise `bytes_max` in the admission policy."
    bytes_max: int


class TooManyPixelsError(AdmissionError):
    """More pixels than `pixels_max`, or more over all frames than `frames_pixels_max`."""

    code = "too-many-pixels"
    what = "the {media_type} has {width}x{height} pixels in {frames} frame(s); {limit} is {maximum}"
    mend = "Scale the picture down, or raise `{limit}` in the admission policy."
    media_type: str
    width: int
    height: int
    frames: int
    limit: str
    maximum: int


class DimensionLimitError(AdmissionError):
    """A side longer than the policy's `side_max`, in pixels."""

    code = "dimension-limit"
    what = "the {media_type} is {width}x{height}; no side may be longer than {side_max} pixels"
    mend = "Scale the picture down or cut it, or raise `side_max` in the admission policy."
    media_type: str
    width: int
    height: int
    side_max: int


class TooManyFramesError(AdmissionError):
    """More frames than the policy's `frames_max`."""

    code = "too-many-frames"
    what = "the {media_type} has more than {frames_max} frames"
    mend = "Drop frames, or raise `frames_max` in the admission policy."
    media_type: str
    frames_max: int


class TooMuchMetadataError(AdmissionError):
    """Text chunks, profiles or archive entries beyond what is reasonable to unpack."""

    code = "too-much-metadata"
    what = "the {media_type} carries too much metadata: {reason}"
    mend = "Save it again without metadata (comments, profiles, embedded parts)."
    media_type: str
    reason: str


class TruncatedImageError(AdmissionError):
    """The end of the picture is missing."""

    code = "truncated-image"
    what = "the {media_type} is cut off: {reason}"
    mend = "Send the original again; an unfinished download or copy is the usual cause."
    media_type: str
    reason: str


class CorruptImageError(AdmissionError):
    """The picture does not decode, or a checksum in it is wrong."""

    code = "corrupt-image"
    what = "the {media_type} is damaged: {reason}"
    mend = "Send the original again, or open and save it with an image program."
    media_type: str
    reason: str


class UnsupportedMediaTypeError(AdmissionError):
    """A type that the policy does not allow, as claimed or as found."""

    code = "unsupported-media-type"
    what = "the type {media_type} is not allowed"
    mend = "Convert the file, or add the type to `media_types` in the admission policy."
    media_type: str


class MediaTypeMismatchError(AdmissionError):
    """The bytes are not of the type they were declared to be."""

    code = "media-type-mismatch"
    what = "the bytes were declared {declared} but are {found}"
    mend = "Declare {found}, or leave the type out."
    declared: str
    found: str


class InvalidMediaTypeError(AdmissionError):
    """A declared type that is not `type/subtype`."""

    code = "invalid-media-type"
    what = "{declared!r} is not a media type"
    mend = "Write it as type/subtype, for example image/png, or leave it out."
    declared: str


class InvalidDocumentError(AdmissionError):
    """A PDF, Office, ZIP, JSON or audio file whose structure is broken."""

    code = "invalid-document"
    what = "the {media_type} is broken: {reason}"
    mend = "Send the original again, or save it anew; an unfinished download is the usual cause."
    media_type: str
    reason: str


class EncryptedDocumentError(AdmissionError):
    """A document that needs a password to be read."""

    code = "encrypted-document"
    what = "the {media_type} is protected by a password"
    mend = "Save it without a password, or set `encrypted_documents` in the admission policy."
    media_type: str


class InvalidTextError(AdmissionError):
    """Text that is not UTF-8, under a policy that asks for `text_utf8`."""

    code = "invalid-text"
    what = "the {media_type} is not UTF-8 at byte {offset_bytes}: {reason}"
    mend = "Save the text as UTF-8, or switch `text_utf8` off in the admission policy."
    media_type: str
    offset_bytes: int
    reason: str


class InvalidNameError(AdmissionError):
    """A name that cannot be kept exactly: not UTF-8, or over 1 024 bytes."""

    code = "invalid-name"
    what = "the name {name} cannot be kept: {reason}"
    mend = "Give another name with `name=` (`--name`); it is a label only."
    name: str
    reason: str


class SourceMissingError(AdmissionError):
    """The source path does not exist."""

    code = "source-missing"
    what = "there is no such file"
    mend = "Check the path character for character; it is shown escaped."


class SourceNotAFileError(AdmissionError):
    """The source is a directory, FIFO, device, socket or a loop of links."""

    code = "source-not-a-file"
    what = "the source is {kind}, not a regular file"
    mend = "Give a regular file, or pass the data itself as bytes or a stream."
    kind: str


class SourceUnreadableError(AdmissionError):
    """The source exists and cannot be read, or a stream failed."""

    code = "source-unreadable"
    what = "the source cannot be read: {reason}"
    mend = "Check its permissions and its disk, then attach it again."
    reason: str


class SourceChangedError(AdmissionError):
    """The file was written to while it was read."""

    code = "source-changed"
    what = "the file changed while it was read: {reason}"
    mend = "Attach it again once its writer has finished."
    reason: str


class DecoderFailedError(AdmissionError):
    """The decoder crashed, ran out of memory or time on these bytes."""

    code = "decoder-failed"
    what = "the decoder of {media_type} failed: {reason}"
    mend = "Convert the file to a simpler form; report it if other programs open it."
    media_type: str
    reason: str


class InvalidEventError(EventError):
    """An event that cannot be written exactly: NaN, lone surrogates, depth, huge integers."""

    code = "invalid-event"
    what = "the event cannot be logged: {reason} at {pointer}"
    mend = "Change that value; nothing was written."
    reason: str
    pointer: str


class EventTooLargeError(EventError):
    """An event whose log line is longer than `event_bytes_max`."""

    code = "event-too-large"
    what = "the event takes more than {event_bytes_max} bytes in the log"
    mend = "Attach its large parts and refer to them; nothing was written."
    event_bytes_max: int


class InvalidSessionIdError(EventError):
    """A session id that is empty, too long, or not text."""

    code = "invalid-session-id"
    what = "{session} is not a session id: {reason}"
    mend = "Use 1 to 512 bytes of UTF-8 without NUL."
    session: str
    reason: str


class DestinationError(RejectedError):
    """A file or folder that something was to be written to, and that holds something else."""

    code = "destination-refused"
    what = "nothing was written there: {reason}"
    mend = "Name a new file, or a new or empty folder, in a folder that exists."
    reason: str
