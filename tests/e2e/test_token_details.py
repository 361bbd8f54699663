"""Token details of streams on the real stack, against the model in transformers."""

from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, MODEL, Service

pytestmark = pytest.mark.e2e

PROMPT = "Once upon a time, there was a dog. "
MESSAGES = [{"role": "user", "content": "Tell me a story about a dog."}]
LIST = {"vocab": {"lang": "en", "n_words": 300, "hint": False, "adapter": None}}
ANSWERS = ("yes", "yesterday", "no")
ROUNDING = 6 / 16
"""In nats: the service computes in bfloat16, in which two numbers near 16, as logits are, differ by 1/16."""

DETAILS = {"token_details": True, "include_usage": True}


class Streamed:
    """A stream that was read: its text, the details of its tokens, and its usage."""

    def __init__(self, chunks: Any) -> None:
        self.text, self.details, self.usage = "", list[Any](), None
        for chunk in chunks:
            self.usage = chunk.usage or self.usage
            for choice in chunk.choices:
                self.text += (choice.delta.content if hasattr(choice, "delta") else choice.text) or ""
                assert choice.logprobs is None
                self.details += choice.token_details
        assert b"".join(bytes(one["bytes"]) for one in self.details).decode() == self.text

    @property
    def token_ids(self) -> list[int]:
        return [one["token_id"] for one in self.details]


def chat(service: Service, **fields: Any) -> Streamed:
    create: Any = service.client.chat.completions.create
    options = {"temperature": 1, "max_tokens": 24, "stream_options": DETAILS, **fields}
    return Streamed(create(model=MODEL, messages=MESSAGES, stream=True, **options))


def complete(service: Service, prompt: list[int], **fields: Any) -> Streamed:
    create: Any = service.client.completions.create
    options = {"temperature": 1, "max_tokens": 24, "stream_options": DETAILS, **fields}
    return Streamed(create(model=MODEL, prompt=prompt, stream=True, **options))


@pytest.fixture(scope="module")
def prompts(service: Service, shallow_path: Path) -> dict[str, list[int]]:
    """The tokens of the prompts of a chat and a completion."""
    headers = {"X-API-Key": KEY}
    answer = httpx2.post(f"{service.url}/tokenize", json={"messages": MESSAGES}, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return {"chat": answer.json()["tokens"], "completion": AutoTokenizer.from_pretrained(shallow_path).encode(PROMPT)}


@pytest.fixture(scope="module")
def model(shallow_path: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(shallow_path, dtype=torch.float32)


def assert_models_own(streamed: Streamed, prompt: list[int], model: Any, top_k: int) -> None:
    """Each probability is the model's own, and so are the likeliest tokens, in their order."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + streamed.token_ids])).logits[0, len(prompt) - 1 :]
    for one, row in zip(streamed.details, logits.float().log_softmax(-1).numpy(), strict=False):
        probs = [top["prob"] for top in one["top_k"]]
        assert probs == sorted(probs, reverse=True)
        ids = [top["token_id"] for top in one["top_k"]]
        assert one["token_id"] in ids
        assert len(set(ids)) == len(ids) in (top_k, top_k + 1)
        reported = np.full_like(row, -np.inf)
        reported[ids] = np.log(probs)
        likely = [token for token in ids if row[token] > np.log(1e-3)]
        assert np.abs(reported[likely] - row[likely]).max(initial=0) < ROUNDING
        # What is far likelier than the last of the likeliest is one of them.
        assert set(np.flatnonzero(row > np.log(probs[top_k - 1]) + ROUNDING).tolist()) <= set(ids)
        own = next(top for top in one["top_k"] if top["token_id"] == one["token_id"])
        assert (own["prob"], own["is_masked"], own["bytes"]) == (one["prob"], False, one["bytes"])
        assert one["is_generated"] and one["latency_ms"] >= 0


@pytest.mark.parametrize("seed", range(5))
def test_details_are_the_models_own_with_a_list_and_without(
    service: Service, prompts: dict[str, list[int]], model: Any, seed: int
) -> None:
    free = chat(service, seed=seed)
    assert_models_own(free, prompts["chat"], model, 5)
    assert not any(top["is_masked"] or one["is_forced"] for one in free.details for top in one["top_k"])
    listed = chat(service, seed=seed, extra_body=LIST)
    assert_only_listed_words(listed.text, "en", 300, end="sentence")
    assert_models_own(listed, prompts["chat"], model, 5)
    assert any(top["is_masked"] for one in listed.details for top in one["top_k"])
    few = {**DETAILS, "top_k": 2}
    completion = complete(service, prompts["completion"], seed=seed, extra_body=LIST, stream_options=few)
    # It may begin with a dash, which stands after a word.
    assert_only_listed_words(f"the {completion.text.lstrip()}", "en", 300, end="sentence")
    assert_models_own(completion, prompts["completion"], model, 2)


def test_what_a_grammar_takes_is_marked_and_what_it_leaves_alone_is_forced(
    service: Service, prompts: dict[str, list[int]], model: Any
) -> None:
    grammar = {"structured_outputs": {"regex": f"({'|'.join(ANSWERS)})"}}
    for made, prompt in (
        (chat(service, extra_body=grammar), prompts["chat"]),
        (complete(service, prompts["completion"], extra_body=grammar), prompts["completion"]),
    ):
        assert made.text in ANSWERS
        assert_models_own(made, prompt, model, 5)
        written = b""
        for one in made.details:
            if one["bytes"]:
                for top in one["top_k"]:
                    text = (written + bytes(top["bytes"])).decode(errors="replace")
                    # Without bytes it ends the text.
                    may_come = text in ANSWERS if not top["bytes"] else any(a.startswith(text) for a in ANSWERS)
                    assert top["is_masked"] != may_come, (text, top)
            written += bytes(one["bytes"])
        # The token that ends the text; "yes" might go on.
        assert made.details[-1]["is_forced"] == (made.text != "yes")


def test_the_usage_says_what_was_cached_and_how_long_it_took(service: Service) -> None:
    messages: Any = [{"role": "user", "content": "Say something about the sea. " * 12}]
    create: Any = service.client.chat.completions.create
    for _ in range(2):
        usage = create(model=MODEL, messages=messages, max_tokens=8, temperature=0).usage
    assert 0 < usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens
    timing = usage.timing
    assert 0 < timing["time_to_first_token_ms"] < timing["total_time_ms"]
    assert timing["generation_time_ms"] > timing["mean_itl_ms"] > 0
    listed: Any = chat(service, extra_body=LIST).usage
    assert listed.timing["total_time_ms"] > listed.timing["generation_time_ms"] > 0
    beams = create(model=MODEL, messages=messages, max_tokens=8, extra_body={"num_beams": 2}).usage
    assert beams.timing.keys() == {"total_time_ms"}


def test_top_k_0_lists_no_others(service: Service) -> None:
    made = chat(service, stream_options={**DETAILS, "top_k": 0}, extra_body=LIST)
    assert made.details
    assert all(one["top_k"] == [] and 0 < one["prob"] <= 1 for one in made.details)
