"""The report: one HTML page on how well a model does on some rows, and where it is unsure."""

from sepgp.report.page import write

__all__ = ["write"]
