"""``make demo`` on an empty machine: which commands install the stack. A Python that only writes them down runs it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTORCH = "https://download.pytorch.org/whl/cpu"
OTHER = "http://127.0.0.1:9/simple"

PYTHON = """#!/bin/sh
echo "$@" >> {folder}/commands
case "$*" in
  "-m venv "*) mkdir -p {folder}/venv/bin; ln -sf {folder}/python {folder}/venv/bin/python;;
  *{found_at}*) ;;
  *torch==*) echo "ERROR: No matching distribution found for torch==2.13.0+cpu" >&2; exit 1;;
esac
"""


def installed(folder: Path, found_at: str, *variables: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the installation where commands with ``found_at`` find torch; return what pip and uv were called with."""
    python = folder / "python"
    python.write_text(PYTHON.format(folder=folder, found_at=found_at))
    python.chmod(0o700)
    venv = folder / "venv"
    make = ["make", f"{venv}/.ready", f"VENV={venv}", f"PYTHON={python}", "UV=", *variables]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "TORCH_INDEX"))}
    done = subprocess.run(make, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    commands = (folder / "commands").read_text().splitlines()
    return done, [line.partition("pip-version-check ")[2] or line for line in commands if "install " in line]


def test_torch_comes_from_where_pip_is_told_to_look_else_from_pytorchs_own_index_or_one_that_is_named(
    tmp_path: Path,
) -> None:
    done, commands = installed(tmp_path, "torch==")
    assert done.returncode == 0, done.stderr
    assert commands[0] == "install -c constraints-cpu.txt torch==2.13.0+cpu"
    assert commands[1] == "install -c constraints-cpu.txt -e .[cpu,demo,dev]"
    assert commands[2].startswith("uninstall ")
    assert PYTORCH not in "".join(commands)
    for name, index, *variables in (("own", PYTORCH), ("named", OTHER, f"TORCH_INDEX={OTHER}")):
        (folder := tmp_path / name).mkdir()
        done, commands = installed(folder, "--extra-index-url", *variables)
        assert done.returncode == 0, done.stderr
        assert "torch==2.13.0+cpu" in commands[0]
        assert "--extra-index-url" not in commands[0]
        assert commands[1].endswith(f"torch==2.13.0+cpu --extra-index-url {index}")
        assert f"asking {index}" in done.stdout


def test_and_where_it_is_nowhere_the_reader_is_told_what_to_do(tmp_path: Path) -> None:
    done, commands = installed(tmp_path, "nowhere")
    assert done.returncode != 0
    assert len(commands) == 2
    assert all("torch==2.13.0+cpu" in command for command in commands)
    assert "No matching distribution found" in done.stdout
    assert f"nor at {PYTORCH}" in done.stdout
    assert "make TORCH_INDEX=<address>" in done.stdout


def test_uv_comes_by_pip_which_installs_the_rest_where_it_did_not_come(tmp_path: Path) -> None:
    done, commands = installed(tmp_path, "torch==", f"UV={tmp_path}/venv/bin/uv")
    assert done.returncode == 0, done.stderr
    assert commands[1] == "install --quiet -c constraints-cpu.txt uv"
    assert commands[2] == "install -c constraints-cpu.txt -e .[cpu,demo,dev]"


@pytest.mark.parametrize("status", [0, 1])
def test_uv_installs_the_rest_where_it_is_and_pip_where_it_fails(tmp_path: Path, status: int) -> None:
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "uv $@" >> {tmp_path}/commands\nexit {status}\n')
    uv.chmod(0o700)
    done, commands = installed(tmp_path, "torch==", f"UV={uv}")
    assert done.returncode == 0, done.stderr
    assert commands[1].startswith("uv pip install --python ")
    assert commands[1].endswith("left-out.txt -c constraints-cpu.txt -e .[cpu,demo,dev]")
    assert (tmp_path / "venv" / "left-out.txt").read_text().startswith('torchvision ; python_version < "3"\n')
    assert len(commands) == (2 if status == 0 else 4)


def test_elsewhere_than_on_linux_it_says_what_is_supported(tmp_path: Path) -> None:
    uname = tmp_path / "uname"
    uname.write_text('#!/bin/sh\n[ "$1" = -s ] && echo Darwin || echo arm64\n')
    uname.chmod(0o700)
    make = ["make", f"{tmp_path}/venv/.ready", f"VENV={tmp_path}/venv", "UV="]
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(make, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "this is Darwin on arm64. Use a Linux container" in done.stdout
    assert not (tmp_path / "venv").exists()
