"""A cluster whose engine is on another node than its vocabulary, and has too little room for what is asked of it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

from tests.checker import assert_only_listed_words
from tests.e2e.own_engine import short_lists
from tests.e2e.service import KEY, MODEL, Service
from tests.e2e.two_nodes import READY
from tests.harness import CONFIG, free_port

# An offline run on two nodes is among the others (`test_offline`).
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

START_S = 600

SETTINGS: dict[str, Any] = {
    "prebuild_langs": [],
    "vocabulary_resources": {"lists": 1},
    "placement_bundles": [{"CPU": 1, "engine": 1}],
    "batch": {"enabled": False},
    # 18 blocks of 128 tokens hold one context, or seven of the long answers that are asked for here.
    "engine_kwargs": {
        "enforce_eager": True,
        "max_model_len": 2048,
        "max_num_seqs": 32,
        "num_gpu_blocks_override": 18,
        "enable_prefix_caching": True,
    },
}

QUESTION = "Say again and again: the dog is in the house, and the house is in the garden, and the garden is in the sun."


@dataclass(frozen=True)
class Cluster:
    """The running service, and where each of its nodes keeps its lists."""

    service: Service
    of_vocabulary: Path
    of_engine: Path


@pytest.fixture(scope="module")
def cluster(shallow_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder, port = tmp_path_factory.mktemp("nodes"), free_port()
    own = {"model_name": str(shallow_path), "wordlist_dir": str(short_lists(folder / "lists", "en", "es", "it", "tr"))}
    args = yaml.safe_load(CONFIG.read_text())["applications"][0]["args"] | own | SETTINGS
    caches = [folder / "vocabulary", folder / "engine"]
    command = [sys.executable, "-m", "tests.e2e.two_nodes", *map(str, caches), str(port), json.dumps(args)]
    log_path = folder / "serve.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"},
        )
        try:
            _wait_until_ready(process, log_path)
            url = f"http://127.0.0.1:{port}"
            with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=300) as client:
                yield Cluster(Service(url, client, log_path), *(cache / "artefacts" for cache in caches))
        finally:
            process.communicate(timeout=120)


def test_a_new_list_is_compiled_once_and_reaches_the_engines_node(cluster: Cluster) -> None:
    before = set(cluster.of_engine.glob("*.safetensors"))
    for n_words in (200, 900):
        answer = cluster.service.ask("Parlami di te.", ("it", n_words), max_tokens=15, temperature=1, seed=1)
        assert_only_listed_words(answer.text, "it", n_words)
    assert answer.vocab is not None
    assert cluster.service.num_compiles(answer.vocab["list_id"], at_least=1) == 1
    # The list, and the table of its forms.
    new = set(cluster.of_engine.glob("*.safetensors")) - before
    assert f"{answer.vocab['list_id']}.safetensors" in {path.name for path in new}
    assert len(new) == 2
    assert all((cluster.of_vocabulary / path.name).read_bytes() == path.read_bytes() for path in new)


@pytest.mark.fault(34)
def test_answers_keep_to_their_lists_where_prefixes_are_shared_and_sequences_taken_out_again(cluster: Cluster) -> None:
    lists: list[tuple[str, int]] = [("en", 300), ("es", 1000), ("en", 5000), ("tr", 2000)] * 3

    def ask(number: int) -> None:
        lang, n_words = lists[number]
        create: Any = cluster.service.client.chat.completions.create
        made = create(
            model=MODEL,
            messages=[{"role": "user", "content": QUESTION}],
            n=2,
            temperature=0.1 + 0.3 * (number % 3),
            seed=number,
            max_tokens=200,
            extra_body={"vocab": {"lang": lang, "n_words": n_words, "end": ("word", "sentence")[number % 2]}},
        )
        for choice in made.choices:
            assert_only_listed_words(choice.message.content, lang, n_words, end=("word", "sentence")[number % 2])

    with ThreadPoolExecutor(len(lists)) as pool:
        for done in pool.map(ask, range(len(lists))):
            assert done is None
    log = cluster.service.log_path.read_text(errors="replace")
    # 24 answers of 200 tokens with their prompts want three times as much.
    assert "KV cache size: 2,304 tokens" in log


def _wait_until_ready(process: subprocess.Popen[bytes], log_path: Path) -> None:
    deadline = time.monotonic() + START_S
    while READY not in (log := log_path.read_text(errors="replace")):
        assert process.poll() is None, f"the service ended before it was ready:\n{log[-4000:]}"
        assert time.monotonic() < deadline, f"the service takes too long to start:\n{log[-4000:]}"
        time.sleep(0.5)
