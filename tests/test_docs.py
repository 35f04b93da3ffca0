"""The README and the documentation: what they show runs, and what they point at is there."""

import ast
import math
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from test_commands import loans

from sepgp.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- what pages show ---------------------------------------------------------------------------


class Block(NamedTuple):
    language: str
    code: str
    line: int


def blocks(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield Block(match[1], match[2], text.count("\n", 0, match.start(2)))


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each line that is the command `sepgp`, up to a pipe."""
    for line in block.code.replace("\\\n", " ").split("\n"):
        if line.startswith("sepgp "):
            yield shlex.split(line.split(" | ")[0], comments=True)[1:]


def is_only_read(path: Path, words: list[str]) -> bool:
    """Whether a command needs what no test has: data sets in DIR, or files of its own help."""
    return "DIR" in words or path.name == "commands.md"


def runs(path: Path) -> bool:
    return any(block.language in ("python", "sh") for block in blocks(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", [*filter(runs, PAGES)], ids=name)
def test_page_runs(path, tmp_path, monkeypatch, capsys) -> None:
    """From top to bottom in one folder: each Python block alone, each command, and what they say.

    A block of text is what the block before it says, or some lines of it.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "90")
    for number, table in enumerate(("loans", "new-loans", "todays-loans")):
        loans(400, number).to_csv(f"{table}.csv", index=False)
    said = ""
    for block in blocks(path):
        if block.language == "text":
            assert_says(said, block.code)
        elif block.language == "python":
            # Empty lines in front make a traceback point at the line of the page.
            code = compile("\n" * block.line + block.code, str(path), "exec")
            exec(code, {"__name__": "__main__"})
        elif block.language == "sh":
            for words in commands(block):
                with pytest.raises(SystemExit) as left:
                    main([*words, "--help"] if is_only_read(path, words) else words)
                assert not left.value.code, f"sepgp {' '.join(words)}: {capsys.readouterr().err}"
        output = capsys.readouterr()
        said = output.err + output.out


def assert_says(said: str, shown: str) -> None:
    """Each line that is shown was said, in this order, with about the same numbers."""
    lines = iter(said.splitlines())
    for line in shown.splitlines():
        assert any(alike(line, other) for other in lines), f"{line!r} is not in\n{said}"


def alike(a: str, b: str) -> bool:
    """Whether lines agree but for space, bars, seconds, and about a tenth of each number."""
    a, b = (" ".join(re.sub(r"[\d.]+ s\b|█+", "", line).split()) for line in (a, b))
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=False)
    return NUMBER.split(a) == NUMBER.split(b) and all(close(*pair) for pair in pairs)


def close(a: str, b: str) -> bool:
    """Whether numbers agree to a tenth, or to .02, or to one if they are whole."""
    x, y = (float(number.replace(",", "")) for number in (a, b))
    return math.isclose(x, y, rel_tol=0.1, abs_tol=0.02 if "." in a else 1)


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("NLL 0.061   in 3.2 s", "NLL 0.063 in 11.0 s", True),
        ("NLL 0.061", "NLL 0.261", False),
        ("2 missed", "3 missed", True),
        ("2 missed", "4 missed", False),
        ("NLL 0.061", "NLL 0.061 and more", False),
        ("error 0.061", "NLL 0.061", False),
        ("age  10.0 %  ███", "age 10.4 % ████", True),
    ],
)
def test_output_is_compared(shown, said, same) -> None:
    assert alike(shown, said) == same


# --- what pages point at -----------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """What can follow a # in a link to a page: its headings, as on GitHub, and names in the API."""
    text = BLOCK.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_point_at_something(path) -> None:
    for link in LINK.findall(BLOCK.sub("", path.read_text(encoding="utf-8"))):
        file, _, anchor = link.partition("#")
        if "://" in link:
            continue
        there = path.parent / file if file else path
        assert there.is_file(), f"{link} points at no file"
        assert not anchor or anchor in anchors(there), f"{link} points at no heading"
        assert path == ROOT / "README.md" or DOCS in there.resolve().parents, f"{link} leaves docs/"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w/-]+\.md\b", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES[1:])


def test_the_commands_are_those_of_the_command_line() -> None:
    page = runpy.run_path(str(DOCS / "commands.py"))["page"]
    shown = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert shown == page(), "run `make docs`, which writes docs/commands.md anew"


def messages() -> Iterator[re.Pattern[str]]:
    """A pattern for every sentence in the library, with anything where a value is filled in."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            if isinstance(texts[-1], str) and texts[-1].endswith("."):
                yield re.compile("".join(".+" if t is None else re.escape(t) for t in texts))


def test_troubleshooting_quotes_what_the_library_says() -> None:
    page = (DOCS / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
    known = list(messages())
    quoted = re.findall(r"^> `(.+)`$", page, re.MULTILINE)
    assert len(quoted) == len(re.findall("^>", page, re.MULTILINE)) > 0
    strange = [text for text in quoted if not any(k.fullmatch(text) for k in known)]
    assert not strange
