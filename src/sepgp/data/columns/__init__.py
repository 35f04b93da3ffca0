"""Texts of a column as what they mean: one trouble a file, and sums of what was found."""
