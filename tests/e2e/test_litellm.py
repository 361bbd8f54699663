"""The service behind LiteLLM, its client and its proxy, in an environment of its own."""

import json
import os
import subprocess
from typing import Any

import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.environments import interpreter_with
from tests.e2e.service import KEY, MODEL, Service
from tests.pages import BLOCKS, ROOT, blocks_run_by

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def result(service: Service, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("litellm")
    [config] = blocks_run_by(__file__, "docs/clients.md")
    (folder / "litellm.yaml").write_text(config.text.replace("http://127.0.0.1:8000", service.url))
    [needed] = {block.marks["needs"] for block in BLOCKS if "litellm" in block.marks.get("needs", "")}
    command = [str(interpreter_with(needed)), "tests/e2e/litellm_client.py", service.url, KEY, MODEL, str(folder)]
    # Else it fetches prices from GitHub, three times over where there is no way there.
    environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("way", [("client", "chat"), ("client", "stream"), ("client", "completion"), ("proxy", "chat"),
                                 ("proxy", "stream"), ("proxy", "fixed")])  # fmt: skip
def test_a_list_holds_through_litellm(result: dict[str, Any], way: tuple[str, str]) -> None:
    answer = result[way[0]][way[1]]
    # A completion may begin with a dash, which stands after a word.
    text = f"the {answer['text'].lstrip()}" if way[1] == "completion" else answer["text"]
    assert_only_listed_words(text, "en", 1000 if way[1] == "fixed" else 500, end="sentence")


@pytest.mark.parametrize("by", ["client", "proxy"])
def test_a_refusal_comes_through_with_its_status(result: dict[str, Any], by: str) -> None:
    assert result[by]["bad"]["status"] == 400
