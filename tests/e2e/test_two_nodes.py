"""A list that was never used before, on a cluster whose engine is on another node than its vocabulary."""

import json
import os
import subprocess
import sys
from pathlib import Path

import openai
import pytest
import yaml

from deployments.demo.process import CONFIG
from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, Service, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_new_list_is_compiled_once_and_reaches_the_engines_node(smollm2_path: Path, tmp_path: Path) -> None:
    port, caches = free_port(), (tmp_path / "vocabulary", tmp_path / "engine")
    args = yaml.safe_load(CONFIG.read_text())["applications"][0]["args"] | {
        "model_name": str(smollm2_path),
        "prebuild_langs": [],
        "vocabulary_resources": {"vocabulary": 1},
        "placement_bundles": [{"CPU": 1, "engine": 1}],
        "batch": {"enabled": False},
    }
    log_path = tmp_path / "serve.log"
    command = [sys.executable, "-m", "tests.e2e.two_nodes", str(port), *map(str, caches), json.dumps(args)]
    with log_path.open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"},
        )
        try:
            _wait_until_ready(process, log_path)
            url = f"http://127.0.0.1:{port}"
            with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=300) as client:
                service = Service(url, client, log_path)
                for n_words in (200, 900):
                    answer = service.ask("Parlami di te.", ("it", n_words), max_tokens=15, temperature=1, seed=1)
                    assert_only_listed_words(answer.text, "it", n_words)
                assert answer.vocab is not None
                name = f"{answer.vocab['list_id']}.safetensors"
                assert service.num_compiles(answer.vocab["list_id"], at_least=1) == 1
        finally:
            process.communicate(timeout=120)
    made, fetched = (cache / "artefacts" / name for cache in caches)
    assert made.read_bytes() == fetched.read_bytes()
    # Beside the list that was asked for, the engine's node has that of its own proof.
    assert len(list(fetched.parent.glob("*.safetensors"))) == 2


def _wait_until_ready(process: subprocess.Popen[str], log_path: Path) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            return
    raise AssertionError(f"the service ended before it was ready:\n{log_path.read_text(errors='replace')[-4000:]}")
