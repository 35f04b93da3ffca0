"""Texts that stand for nothing."""

import pyarrow as pa
import pyarrow.compute as pc

SIGNS = pa.array(
    ["", "?", "-", "--", ".", "na", "n/a", "n.a.", "#n/a", "nan", "<na>", "null", "nil", "none"],
    pa.large_string(),
)
"""In lower case. One of them must not make text of a column of numbers."""


def absent(texts: pa.Array) -> pa.Array:
    """Whether texts are null or a sign for it."""
    known = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), SIGNS)
    return pc.or_(pc.is_null(texts), known)
