"""Every example of the pages, run in order against the running application."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.environments import interpreter_with
from tests.e2e.service import KEY, Service
from tests.pages import BLOCKS, PAGES, ROOT
from tools.docs.examples import Block, commands, typed_text

pytestmark = pytest.mark.e2e

ADDRESSES = ("http://127.0.0.1:8000", "http://localhost:8000", "localhost:8000")
MODEL_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
MESSAGES = [{"role": "user", "content": "Tell me a story about a dog."}]
ALL = [
    [block for block in BLOCKS if block.page == page and not {"not run", "run by"} & {*block.marks}] for page in PAGES
]
RUN = ("console", "python")
PROGRAMS = [
    found
    for page in ALL
    if (found := [one for one in page if (one.language in RUN or "answer" in one.marks) and "needs" not in one.marks])
]
RECIPES = [one for page in ALL for one in page if "needs" in one.marks]
"""Programs for packages that need an environment of their own."""
BODIES = [one for page in ALL for one in page if one.language == "json" and "answer" not in one.marks]


def steps_of(block: Block) -> list[dict[str, Any]]:
    """What is run of a block, and the status with which it ends."""
    steps = [{"kind": "shell", "text": block.marks["before"], "status": 0}] if "before" in block.marks else []
    if block.language == "python":
        steps.append({"kind": "python", "text": block.text, "status": 0})
    else:
        steps.append({"kind": "shell", "text": typed_text(block), "status": int(block.marks.get("exit", 0))})
        if "exact" in block.marks:
            steps[-1]["shown"] = "".join(command.output for command in commands(block))
    return [{"name": str(block), **step} for step in steps]


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page[0].page)
def test_the_programs_of_a_page_run(service: Service, shallow_path: Path, tmp_path: Path, page: list[Block]) -> None:
    steps = [step for block in page if block.language in RUN for step in steps_of(block)]
    given = json.dumps(steps)
    for address in ADDRESSES:
        given = given.replace(address, service.url)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    where = {"WORDBOUND_URL": service.url, "WORDBOUND_API_KEY": KEY, "KEY": KEY, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "e2e" / "page_runner.py")],
        input=given.replace(MODEL_ID, str(shallow_path)),
        env={**os.environ, **where},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    summary = [json.loads(line) for line in done.stdout.splitlines()]
    for step, result in zip(steps, summary, strict=False):
        assert result["status"] == step["status"], f"{step['name']}\n{step['text']}\n{result['output']}{done.stderr}"
        if "shown" in step:
            assert_shown(result["output"], step["shown"])
    assert len(summary) == len(steps), done.stderr
    for block in page:
        if "answer" in block.marks:
            # It is of the program before it, whose last line prints what came.
            printed = next(result["output"] for result in reversed(summary) if line_of(result["name"]) < block.line)
            assert_has_members(ast.literal_eval(printed.splitlines()[-1]), json.loads(block.text))


def line_of(name: str) -> int:
    return int(name.rpartition(":")[2])


def assert_has_members(came: Any, shown: Any) -> None:
    """Assert that an answer has the members that a page shows, with values of the same types."""
    assert type(came) is type(shown)
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert_has_members(came[name], value)
    elif isinstance(shown, list) and came:
        assert_has_members(came[0], shown[0])


@pytest.mark.parametrize("block", RECIPES, ids=str)
def test_a_recipe_runs_in_an_environment_of_its_own(service: Service, tmp_path: Path, block: Block) -> None:
    python = interpreter_with(block.marks["needs"])
    text = block.text.replace(ADDRESSES[0], service.url)
    # LiteLLM fetches prices otherwise.
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [python, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def assert_shown(output: str, shown: str) -> None:
    """Assert that output is as a page shows it, where … stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.split("…"))
    assert re.fullmatch(pattern, output, re.DOTALL), f"shown:\n{shown}\ncame:\n{output}"


@pytest.mark.parametrize("block", BODIES, ids=str)
def test_the_body_of_a_request_is_answered(service: Service, block: Block) -> None:
    route = block.marks.get("POST", "/v1/chat/completions")
    body = json.loads(block.text)
    if route == "/v1/chat/completions":
        body = {"messages": MESSAGES, "max_tokens": 40, **body}
    answer = httpx2.post(service.url + route, json=body, headers={"X-API-Key": KEY}, timeout=300)
    assert answer.status_code == 200, answer.text
    assert "vocab" in answer.text
