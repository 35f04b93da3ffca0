"""Every Python block in the README and the documentation runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for number, match in enumerate(BLOCK.finditer(text), start=1):
            line = text.count("\n", 0, match.start(1))
            name = path.relative_to(ROOT).as_posix()
            yield pytest.param(path, line, match[1], id=f"{name}-{number}")


@pytest.mark.parametrize(("path", "line", "code"), list(blocks()))
def test_block_runs(path, line, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Empty lines in front make a traceback point at the line of the document.
    exec(compile("\n" * line + code, str(path), "exec"), {"__name__": "__main__"})
