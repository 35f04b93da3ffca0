"""Python environments of the peers, each made on first use from a pinned list."""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / ".envs"
SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"


class NoEnvironment(RuntimeError):
    """An environment could not be made."""


def requirements(name: str) -> Path:
    """The pinned list of an environment."""
    return HERE / f"requirements-{name}.txt"


def python(name: str) -> Path:
    """The interpreter of an environment, which is made unless it is there and up to date."""
    folder = FOLDER / name
    interpreter, ready = folder / SCRIPTS / "python", folder / "ready"
    wanted = hashlib.sha256(requirements(name).read_bytes()).hexdigest()
    if ready.exists() and ready.read_text() == wanted:
        return interpreter
    print(f"Setting up {folder}; this takes a few minutes.", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    command = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    made = subprocess.run(
        [*command, "-r", requirements(name)], stderr=subprocess.PIPE, text=True, check=False
    )
    if made.returncode:
        last = (made.stderr.strip() or "pip said nothing").splitlines()[-1]
        raise NoEnvironment(f"{requirements(name).name} could not be installed: {last}")
    ready.write_text(wanted)
    return interpreter
