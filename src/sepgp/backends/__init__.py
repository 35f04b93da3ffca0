"""Training on rows that lie in several parts, wherever these are: see `rounds`."""
