"""``make wheel``: build the package, and use it as somebody does who has no clone.

    python -m tools.wheel [--pythons PATH …] [--tests] [--stack]

An sdist and a wheel made from it, checked by twine; the wheel in an empty environment of each Python, and the commands
that need no service. ``--tests`` runs there the unit tests that need none either. ``--stack`` installs it with vLLM
too, runs ``wordbound demo`` until its first answer, and asks it from such an environment, as a client and as an
assistant. All but ``dist/`` lies in a folder that is removed. Prints the time and size of each step.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from wordbound.cli.service import LEFT_OUT

ROOT: Final = Path(__file__).parents[1]
CONSTRAINTS: Final = ROOT / "constraints-cpu.txt"
LIGHT: Final = (
    ("--help",),
    ("words", "es", "--limit", "3"),
    ("check", "--lang", "en", "--words", "2000", "text.txt"),
    ("grammar", "--lang", "en", "--words", "20"),
    ("levels",),
    ("mcp", "--help"),
)
"""Commands that need no service, in a folder with a text whose words are listed."""
TEST_PACKAGES: Final = ("hypothesis", "jsonschema", "pytest", "pytest-asyncio", "pytest-timeout")
DEMO_S: Final = 900
ASK: Final = """
import asyncio, os, sys
from mcp import Client as Assistant, StdioServerParameters
from wordbound import Client

TEXT, EN = "The zebra is here.", {"lang": "en", "n_words": 1000}
with Client() as service:
    print([place["word"] for place in service.check(TEXT, EN)["not_allowed"]])
    print([word["word"] for word in service.next_words("The dog was", EN, top=3)["data"]])

async def main():
    started = StdioServerParameters(command=sys.argv[1], args=["mcp"], env=dict(os.environ))
    async with Assistant(started) as assistant:
        print([tool.name for tool in (await assistant.list_tools()).tools])
        for vocab in (EN, {"lang": "xx"}):
            answer = await assistant.call_tool("check_text", {"text": TEXT, "vocab": vocab})
            print(answer.structured_content or answer.content[0].text)

asyncio.run(main())
"""


def step(name: str, command: list[str], folder: Path) -> str:
    """Run a command in a folder, print its time, and return what it wrote.

    Raises:
        SystemExit: It failed; with the last lines of what it wrote.
    """
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)
    if done.returncode:
        raise SystemExit(f"{name} ended with status {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def environment(folder: Path, *packages: str, python: str = sys.executable) -> Path:
    """Make an empty environment with these packages, print its size, and return the folder of its programs."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    step(f"pip install {' '.join(packages)}"[:100], [*pip, *packages], folder)
    num_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"  {num_bytes / 1e6:.0f} MB", flush=True)
    return folder / "bin"


def build(folder: Path) -> Path:
    """Build the distributions into ``dist/``, have twine check them, and return the wheel."""
    tools = environment(folder / "tools", "build", "twine")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    # A copy, with git's history for the version: setuptools writes beside what it builds from.
    left_out = shutil.ignore_patterns(".venv", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "node_modules")
    source = shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=left_out)
    step("build", [str(tools / "python"), "-m", "build", "--outdir", str(dist), str(source)], folder)
    files = sorted(dist.iterdir())
    for file in files:
        print(f"  {file.name}: {file.stat().st_size / 1e6:.1f} MB")
    step("twine check", [str(tools / "twine"), "check", "--strict", *map(str, files)], folder)
    [wheel] = dist.glob("*.whl")
    return wheel


def run_light(folder: Path, wheel: Path, python: str, *, with_tests: bool) -> Path:
    """Run the commands that need no service, and the unit tests, with one Python; return the folder of its programs."""
    print(subprocess.run([python, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip())
    constraints = ("-c", str(CONSTRAINTS))
    programs = environment(folder / Path(python).parents[1].name, *constraints, f"{wheel}[files,mcp]", python=python)
    (folder / "text.txt").write_text("The little dog is in the garden.\n")
    for command in LIGHT:
        written = step(f"wordbound {' '.join(command)}", [str(programs / "wordbound"), *command], folder)
        print("  " + "\n  ".join(written.strip().splitlines()[:3]), flush=True)
    if with_tests:
        run = [str(programs / "python"), "-m"]
        step("pip install", [*run, "pip", "install", "-q", *constraints, f"{wheel}[masks]", *TEST_PACKAGES], folder)
        files = step("tests that need no service", [*run, "tests.light"], ROOT).split()
        pytest = [*run, "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=ci"]
        written = step(f"{len(files)} files of them", [*pytest, *files], ROOT)
        print("  " + written.strip().splitlines()[-1], flush=True)
    return programs


def run_demo(folder: Path, wheel: Path, torch: str, light: Path) -> None:
    """Install the service, run its demo until the first answer, print that, and ask more with ``light``'s programs."""
    programs = environment(folder / "stack", "-c", str(CONSTRAINTS), torch, f"{wheel}[cpu,demo]")
    step("uninstall", [str(programs / "python"), "-m", "pip", "uninstall", "-qy", *LEFT_OUT], folder)
    started = time.monotonic()
    demo = subprocess.Popen(
        [str(programs / "wordbound"), "demo"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )  # fmt: skip
    url = ""
    try:
        for line in demo.stdout or ():
            print(f"  {line}", end="", flush=True)
            if found := re.search(r"starting the service on (\S+);", line):
                url = found[1]
            if line.startswith("Ctrl-C") or time.monotonic() - started > DEMO_S:
                break
        print(f"wordbound demo: {time.monotonic() - started:.1f} s", flush=True)
        command = [str(light / "python"), "-c", ASK, str(light / "wordbound")]
        print(step("a client and an assistant", ["env", f"WORDBOUND_URL={url}", *command], folder), flush=True)
    finally:
        demo.terminate()
        demo.communicate(timeout=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", action="store_true", help="run the unit tests that need no service too")
    parser.add_argument("--stack", action="store_true", help="install vLLM too, and run the demo")
    parser.add_argument("--pythons", nargs="*", help="interpreters for the commands that need no service")
    parser.add_argument("--torch", default="torch==2.13.0+cpu")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wheel") as name:
        folder = Path(name)
        wheel = build(folder)
        for python in arguments.pythons or [sys.executable]:
            light = run_light(folder, wheel, python, with_tests=arguments.tests)
        if arguments.stack:
            run_demo(folder, wheel, arguments.torch, light)


if __name__ == "__main__":
    main()
