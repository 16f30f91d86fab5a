"""attachstore: content-addressed attachments, and the session logs that refer to them."""

from attachstore.digest import Digest
from attachstore.reference import Reference

__all__ = ["Digest", "Reference"]
