"""Environments for programs whose packages need not agree with the service's."""

import fcntl
import json
import re
import subprocess
import sys
from pathlib import Path

from deployments.settings.service import cache_dir
from tests.pages import ROOT

_ANKI = "anki==26.9.3"


def interpreter_with(requirement: str) -> Path:
    """Return the Python of an environment with a package, such as ``litellm==1.2``; made once, in the user's cache."""
    name = re.sub(r"[^\w.]+", "-", f"{requirement}-{sys.implementation.cache_tag}")
    folder = cache_dir() / "environments" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be about to make the same one.
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _made(folder, requirement)


def notes_in_anki(cards: Path) -> list[list[str]]:
    """Import a file of cards into Anki, and return the texts of each note's fields as it shows them."""
    command = [str(interpreter_with(_ANKI)), "tests/e2e/anki_client.py", str(cards)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    notes: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
    return notes


def _made(folder: Path, requirement: str) -> Path:
    python, made = folder / "bin" / "python", folder / "made"
    if not made.is_file():
        uv = str(Path(sys.executable).with_name("uv"))
        for arguments in (
            ["venv", "--clear", "--python", sys.executable, str(folder)],
            ["pip", "install", "--python", str(python), requirement],
        ):
            done = subprocess.run([uv, *arguments], capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr
        made.touch()
    return python
