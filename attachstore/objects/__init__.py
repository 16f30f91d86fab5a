"""Objects: an Attachment becomes a durable object, a Reference becomes verified bytes again.

`backend.py` is the seam for a medium, with one file per medium beside it; `store.py` is all that
is decided above the seam, once for every medium.
"""
