"""Writes commands.md, the reference of the command line, from what the commands say themselves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from sepgp.cli.main import app

PAGE = Path(__file__).with_name("commands.md")
HEAD = """# Commands

Every command and option, as `--help` has them. A mistake in what a command is given ends it with \
one sentence and exit code 1, see [Troubleshooting](how-to/troubleshooting.md); one in how it is \
written, such as an unknown option, with exit code 2. Ctrl-C ends a command with exit code 130, \
SIGTERM with 143, and a pipe whose reader has had enough with 141.
"""


def page() -> str:
    """The text of the page."""
    root = typer.main.get_command(app)
    return "\n".join([HEAD, *(section(*found) for found in commands(root, "sepgp"))])


def commands(command: Any, name: str) -> Iterator[tuple[Any, str]]:
    """A command and all commands below it, with their full names."""
    yield command, name
    for child in getattr(command, "commands", {}).values():
        yield from commands(child, f"{name} {child.name}")


def section(command: Any, name: str) -> str:
    """What a command does, examples, and a table of its arguments and options."""
    context = typer.Context(command)
    parts = [f"## {name}"]
    for paragraph in (command.help or "").strip().split("\n\n"):
        examples = paragraph.strip().removeprefix("\b\n")
        fenced = f"```sh\n{examples}\n```"
        parts.append(" ".join(paragraph.split()) if examples == paragraph.strip() else fenced)
    rows = [record for param in command.params if (record := param.get_help_record(context))]
    if rows:
        cells = [f"| `{names}` | {' '.join(text.split())} |" for names, text in rows]
        parts.append("\n".join(["| name | meaning |", "|---|---|", *cells]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
