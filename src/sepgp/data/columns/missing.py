"""Texts that stand for nothing."""

import pyarrow as pa
import pyarrow.compute as pc

SIGNS = (
    "", "?", "-", "--", "–", "—", ".", "na", "n/a", "n.a.", "#n/a", "nan", "<na>", "null", "(null)",
    "nil", "none", "k.a.", "n.v.", "#nv", "#div/0!", "#value!", "#wert!", "#ref!", "#num!",
    "#bezug!", "#name?", "#null!", "#zahl!", "#spill!", "#calc!", "-nan", "\\n",
)  # fmt: skip
"""In lower case. One of them must not make text of a column of numbers."""


def absent(texts: pa.Array) -> pa.Array:
    """Whether texts are null or a sign for it."""
    signs = pa.array(SIGNS, pa.large_string())  # which imports pandas, so not before it is needed
    known = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), signs)
    return pc.or_(pc.is_null(texts), known)
