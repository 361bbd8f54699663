"""``make demo`` as the pages have it: what it prints, an ``.env`` file of another server, and Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.e2e.service import KEY
from tests.pages import ROOT, blocks_run_by
from tools.docs.examples import commands

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

[README] = blocks_run_by(__file__, "README.md")
[TUTORIAL] = blocks_run_by(__file__, "docs/tutorials/first-text.md")
[WITH_ENV_FILE, SHORTENED] = blocks_run_by(__file__, "docs/migration.md")
LAST_LINE = "Ctrl-C stops the service."


@pytest.fixture(scope="module")
def demo(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """One run, which serves while tests ask for it."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / ".env").write_text("MAX_INPUT_TOKENS=64\nINPUT_OVERFLOW=truncate\nPAD_TO_MULTIPLE_OF=8\n")
    (folder / "models").symlink_to(smollm2_path.parent)
    [command] = commands(WITH_ENV_FILE)
    assert command.text == f"WORDBOUND_ENV_FILE=/srv/old/.env {commands(README)[-1].text}"
    assert commands(README)[-1].text == commands(TUTORIAL)[-1].text
    # This environment, as it is.
    typed = f"{command.text.replace('/srv/old', str(folder))} VENV={sys.prefix} -o {sys.prefix}/.ready"
    kept = {name: value for name, value in os.environ.items() if name not in ("MODEL_NAME", "MAKEFLAGS", "MAKELEVEL")}
    run = subprocess.Popen(
        ["bash", "-c", typed],
        cwd=ROOT,
        env={**kept, "WORDBOUND_CACHE": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield run
    finally:
        # Ctrl-C goes to all processes of the terminal.
        os.killpg(run.pid, signal.SIGINT)
        run.communicate(timeout=60)


@pytest.fixture(scope="module")
def printed(demo: subprocess.Popen[str]) -> list[str]:
    """The lines of its start."""
    assert demo.stdout is not None
    return [line.rstrip("\n") for line in takewhile(lambda line: LAST_LINE not in line, demo.stdout)]


def test_it_prints_what_the_readme_shows(printed: list[str]) -> None:
    shown = commands(README)[-1].output.splitlines()
    lines = iter(anywhere(line) for line in printed)
    # Of the answer the frame: its words are the model's. There are more lines where something is made for the first
    # time.
    missing = [line for line in map(anywhere, shown) if is_of_the_frame(line) and line not in lines]
    assert missing == [], "\n".join(printed)


def is_of_the_frame(line: str) -> bool:
    return line.startswith(("[", "Tell me")) or "rank" in line


def anywhere(line: str) -> str:
    """The line without what differs from run to run and from machine to machine."""
    line = re.sub(r"^\[[\d:]+\]", "[]", line)
    line = re.sub(r"(?<=its log is ).*(?=/demo/serve\.log)|(?<=127\.0\.0\.1:)\d+", "", line)
    return re.sub(r"\d+(?= words, )|\d+(?= distinct)|(?<=has rank )\d+", "", line)


def test_a_conversation_that_is_too_long_is_answered_as_the_page_shows(printed: list[str]) -> None:
    [url] = re.findall(r"the page: (http://[\d.:]+)", "\n".join(printed))
    turn = [{"role": "user", "content": "Tell me a story about a dog. " * 4}, {"role": "assistant", "content": "No."}]
    messages = [*turn, *turn, {"role": "user", "content": "Who are you?"}]
    body = {"messages": messages, "max_tokens": 10}
    answer = httpx2.post(f"{url}/v1/chat/completions", json=body, headers={"X-API-Key": KEY}, timeout=120)
    assert answer.status_code == 200, answer.text
    assert json.loads(SHORTENED.text).items() <= answer.json().items()


def test_the_adapter_writes_in_the_language_of_its_card_alone(printed: list[str]) -> None:
    [url] = re.findall(r"the page: (http://[\d.:]+)", "\n".join(printed))
    for lang, adapter in (("en", "simple-en"), ("es", None)):
        body = {
            "messages": [{"role": "user", "content": "Casa"}],
            "max_tokens": 10,
            "vocab": {"lang": lang, "n_words": 500},
        }
        answer = httpx2.post(f"{url}/v1/chat/completions", json=body, headers={"X-API-Key": KEY}, timeout=120)
        assert answer.status_code == 200, answer.text
        assert answer.json()["vocab"]["adapter"] == adapter


def test_what_is_left_of_a_dead_engine_is_reaped(printed: list[str], demo: subprocess.Popen[str]) -> None:
    assert printed
    every = psutil.Process(demo.pid).children(recursive=True)
    [replica] = [process for process in every if "ServeReplica:wordbound:Replica" in process.cmdline()[0]]
    dead = [replica, *replica.children(recursive=True)]
    assert len(dead) >= 3, dead
    for process in dead:
        process.kill()
    deadline = time.monotonic() + 60
    # One that nobody waited for still runs, for psutil.
    while left := [process for process in dead if process.is_running()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
