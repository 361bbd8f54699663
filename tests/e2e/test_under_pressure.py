"""The promise where the engine shares prefixes, and takes running sequences out of the batch again."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.service import MODEL, Service

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# 18 blocks of 128 tokens hold one context, or seven of the answers asked for here.
SETTINGS = {
    "engine_kwargs": {
        "enforce_eager": True,
        "max_model_len": 2048,
        "max_num_seqs": 32,
        "num_gpu_blocks_override": 18,
        "enable_prefix_caching": True,
    },
}

QUESTION = "Say again and again: the dog is in the house, and the house is in the garden, and the garden is in the sun."


def test_answers_keep_to_their_lists_under_pressure(own_service: Service) -> None:
    lists: list[tuple[str, int]] = [("en", 300), ("es", 1000), ("en", 5000), ("tr", 2000)] * 3

    def ask(number: int) -> None:
        lang, n_words = lists[number]
        create: Any = own_service.client.chat.completions.create
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
    log = own_service.log_path.read_text(errors="replace")
    # 24 answers of 200 tokens with their prompts want three times as much.
    assert "KV cache size: 2,304 tokens" in log
