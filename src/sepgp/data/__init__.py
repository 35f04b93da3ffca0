"""Where rows come from."""

from sepgp.data.rows import Rows, open_rows

__all__ = ["Rows", "open_rows"]
