"""Run the blocks of one page in order, as a reader does, and print what came of each as JSON, a line each.

``python tests/e2e/page_runner.py < steps.json`` in an empty folder. Python blocks share their names; a block that fails
is the last.
"""

import contextlib
import io
import json
import subprocess
import sys
import traceback
from typing import Any

SHELL = """set -euo pipefail
curl() { command curl --fail-with-body --silent --show-error "$@"; }
"""
"""An answer that is an error fails its command."""


def run_shell(text: str) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", SHELL + text], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr}"


def run_python(text: str, name: str, names: dict[str, Any]) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            exec(compile(text, name, "exec"), names)  # noqa: S102 - the pages are ours
        except Exception:
            return 1, said.getvalue() + traceback.format_exc()
    return 0, said.getvalue()


def main() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for step in json.load(sys.stdin):
        name, text = step["name"], step["text"]
        status, output = run_shell(text) if step["kind"] == "shell" else run_python(text, name, names)
        print(json.dumps({"name": name, "status": status, "output": output}), flush=True)
        if status != step["status"]:
            break


if __name__ == "__main__":
    main()
