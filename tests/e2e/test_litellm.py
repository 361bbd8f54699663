"""The service behind LiteLLM, whose package needs an environment of its own (``docs/clients.md``)."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, MODEL, Service

PYTHON = os.environ.get("LITELLM_PYTHON")
"""The interpreter of an environment with ``litellm[proxy]``."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="LITELLM_PYTHON names no interpreter with litellm[proxy]"),
]


@pytest.fixture(scope="module")
def told(service: Service, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("litellm")
    command = [str(PYTHON), "tests/e2e/litellm_client.py", service.url, KEY, MODEL, str(folder)]
    root = Path(__file__).parents[2]
    # Else it fetches prices from GitHub, three times over where there is no way there.
    environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("way", [("client", "chat"), ("client", "stream"), ("client", "completion"), ("proxy", "chat"),
                                 ("proxy", "stream"), ("proxy", "fixed")])  # fmt: skip
def test_a_list_holds_through_litellm(told: dict[str, Any], way: tuple[str, str]) -> None:
    answer = told[way[0]][way[1]]
    assert_only_listed_words(answer["text"], "en", 500, end="sentence")


@pytest.mark.parametrize("by", ["client", "proxy"])
def test_a_refusal_comes_through_with_its_status(told: dict[str, Any], by: str) -> None:
    assert told[by]["bad"]["status"] == 400
