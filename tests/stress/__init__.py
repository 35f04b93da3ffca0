"""Thousands of random problems that are nasty on purpose: `make stress`."""
