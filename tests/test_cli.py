"""The command line: what it prints, and one sentence for every mistake."""

import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import typer

from sepgp import GPClassifier
from sepgp.cli.main import app, main
from sepgp.experiments import cells, table1
from sepgp.experiments.catalogue import CATALOGUE


def run(capsys, *arguments):
    """Exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def complaint(capsys, *arguments):
    """The sentence that a command ends with."""
    code, out, error = run(capsys, *arguments)
    assert code == 1
    assert out == ""
    sentence = error.splitlines()[-1]
    assert sentence.startswith("Error: ")
    assert sentence.endswith(".")
    assert "Traceback" not in error
    return sentence


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "said", "needed"),
    [
        ("--help", "reproduce", set()),
        ("--version", "sepgp 0.", set()),
        ("train t.csv", "Missing option", set()),
        ("train t.csv --target y --out none/m.sepgp", "is in a folder that is not there", set()),
        ("train none.csv --target y", "There is no file", {"numpy", "pyarrow"}),
        ("train t.csv --target z", "has no column 'z'", {"numpy", "pyarrow"}),
        ("train t.csv --target y --resume", "There is no checkpoint", {"numpy", "pyarrow"}),
        ("predict none.sepgp t.csv", "none.sepgp cannot be read", set()),
        ("predict m.sepgp none.csv", "There is no file", {"numpy", "pyarrow"}),
        ("info m.sepgp", "inducing points", {"numpy"}),
    ],
)
def test_first_answers_wait_for_no_large_library(arguments, said, needed, tmp_path):
    """Which is what makes them come at once."""
    rows = np.random.default_rng(0).normal(size=(40, 2))
    pd.DataFrame(rows, columns=["a", "b"]).assign(y=rows[:, 0] > 0).to_csv(tmp_path / "t.csv")
    GPClassifier(n_inducing=5, max_iter=2).fit(rows, rows[:, 0] > 0).save(tmp_path / "m.sepgp")
    code = (
        f"import atexit, sys; sys.argv = ['sepgp', *{arguments.split()!r}]; "
        "import sepgp.cli.main as cli; "
        "large = {'torch', 'sklearn', 'pyarrow', 'pandas', 'numpy', 'scipy'}; "
        "atexit.register(lambda: print(sorted(large & sys.modules.keys()))); cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert said in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == str(sorted(needed))


COMMANDS = [
    "train", "predict", "evaluate", "info", "report", "update", "data", "data fetch",
    "data airline", "reproduce table1", "reproduce figure2", "reproduce figure3",
    "reproduce powers", "reproduce classes",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = run(capsys, *command.split(), "--help")
    assert code == 0
    assert [line for line in out.splitlines() if line.strip().startswith(f"sepgp {command} ")]


@pytest.mark.parametrize("command", ["", "reproduce", *COMMANDS])
def test_help_is_whole_in_80_columns(command, capsys, monkeypatch):
    """Names of options were cut to `--drop-unlabel…`."""
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, *command.split(), "--help")
    node = typer.main.get_command(app)
    for name in command.split():
        node = node.commands[name]
    names = {name for param in node.params for name in (*param.opts, *param.secondary_opts)}
    assert all(name in out for name in names if name.startswith("--"))
    assert not re.search(r"\w(…|\.\.\.)", out)


def complete(words, **how):
    """What the command answers a shell that asks for the completion of the last word."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))} if words else {}
    done = subprocess.run(
        [sys.executable, "-m", "sepgp"],
        env={**os.environ, **asked, "_SEPGP_COMPLETE": how.get("how", "complete_bash")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.process
def test_shells_complete_commands_and_options():
    assert complete("sepgp tr").split() == ["train"]
    assert complete("sepgp train --val").split() == ["--validation"]


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell):
    assert "_SEPGP_COMPLETE=complete_" in complete("", how=f"source_{shell}")


def test_a_fault_of_ours_is_one_line_too(capsys, monkeypatch, tmp_path):
    def fail(path):
        raise KeyError("x")

    (tmp_path / "m.sepgp").touch()
    monkeypatch.setattr("sepgp.files.content.read_model", fail)
    sentence = complaint(capsys, "info", str(tmp_path / "m.sepgp"))
    assert "KeyError at " in sentence
    assert "test_cli.py:" in sentence
    assert "please report" in sentence


@pytest.mark.process
def test_python_m_sepgp():
    command = [sys.executable, "-m", "sepgp", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "reproduce" in done.stdout
    assert "data" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["reproduce", "table2"], ["reproduce", "table1", "--jobs=0"]]
)
def test_wrong_usage(arguments, capsys):
    code, _, error = run(capsys, *arguments)
    assert code == 2
    assert "Traceback" not in error


def test_list_of_data_sets(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "heart.parquet").touch()
    code, out, _ = run(capsys, "data", "--data", str(tmp_path))
    assert code == 0
    assert all(name in out for name in CATALOGUE)
    assert "2,127,066" in out
    here = {
        line.split()[0]: line.split()[3]
        for line in out.splitlines()
        if line.split()[0] in CATALOGUE
    }
    assert [name for name in here if here[name] == "yes"] == ["heart"]
    assert "sepgp data fetch pima" in " ".join(out.split())


def test_unknown_data_set(capsys):
    assert "There is no data set 'titanic'" in complaint(capsys, "data", "fetch", "titanic")


@pytest.mark.process
def test_missing_data(capsys, tmp_path):
    folder = tmp_path / "none"
    sentence = complaint(
        capsys, "reproduce", "table1", "--quick", f"--data={folder}", f"--out={tmp_path}"
    )
    assert str(folder / "australian.parquet") in sentence
    assert "sepgp data fetch australian" in sentence


def test_missing_library_is_told_at_once(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    sentence = complaint(capsys, "reproduce", "figure3", f"--out={tmp_path}")
    assert "pip install 'sepgp[paper]'" in sentence


def test_out_is_a_file(capsys, tmp_path):
    (tmp_path / "out").touch()
    sentence = complaint(capsys, "reproduce", "table1", f"--out={tmp_path / 'out'}")
    assert "out" in sentence


@pytest.fixture
def tiny(monkeypatch):
    """Table 1 with two sets, two splits, three iterations, and m = 15 % alone."""
    grid = [
        cell._replace(arguments=cell.arguments | {"max_iter": 3})
        for cell in table1.cells(quick=True)
        if cell.arguments["share"] == 15 and cell.arguments["name"] in ("crabs", "heart")
    ]
    monkeypatch.setattr(table1, "cells", lambda quick: grid)
    return grid


@pytest.mark.process
def test_run_goes_on_where_it_was_stopped(capsys, tiny, data_dir, tmp_path, monkeypatch):
    """A whole run, interrupted after five cells and started again."""
    command = ["reproduce", "table1", f"--data={data_dir}", f"--out={tmp_path}", "--jobs=2"]
    honest = cells.run

    def interrupted(grid, *arguments):
        yield from honest(grid[:5], *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(cells, "run", interrupted)
    code, out, error = run(capsys, *command)
    assert code == 130
    assert out == ""
    assert f"5 of {len(tiny)} cells are kept" in " ".join(error.split())
    assert not list(tmp_path.glob("*.csv"))

    monkeypatch.setattr(cells, "run", honest)
    code, out, error = run(capsys, *command)
    assert code == 0
    assert f"5 of {len(tiny)} cells are finished already" in " ".join(error.split())
    suffixes = [".csv", "_fits.csv", ".png", ".svg", ".md"]
    assert out.split() == [str(tmp_path / f"table1{suffix}") for suffix in suffixes]
    assert len(cells.finished(tiny, tmp_path / "table1.cells")) == len(tiny)
