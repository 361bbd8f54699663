"""Next-token rows of the real stack, against the model in transformers."""

import base64
import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, MODEL, Service, read_stream

pytestmark = pytest.mark.e2e

TEXTS = ("Once upon a time, there was a", "The sea is", "1 + 1 =", "<|im_start|>user\nHello", "Der Hund")
V = 49_152


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx2.Client]:
    # None is used twice: httpx2's pool may close one that another thread is about to use.
    limits = httpx2.Limits(max_connections=300, max_keepalive_connections=0)
    with httpx2.Client(base_url=service.url, headers={"X-API-Key": KEY}, timeout=120, limits=limits) as client:
        yield client


@pytest.fixture(scope="module")
def tokenizer(shallow_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(shallow_path)


@pytest.fixture(scope="module")
def expected(shallow_path: Path, tokenizer: Any) -> list[Any]:
    """Of each text, the log-softmax of the model's logits after each of its tokens, in float32."""
    model = AutoModelForCausalLM.from_pretrained(shallow_path, dtype=torch.float32)
    with torch.no_grad():
        return [
            model(torch.tensor([tokenizer.encode(text)])).logits[0].float().log_softmax(-1).numpy() for text in TEXTS
        ]


def rows(http: httpx2.Client, prompt: Any, **fields: Any) -> Any:
    answer = http.post("/v1/logprobs", json={"model": MODEL, "prompt": prompt, **fields})
    while answer.status_code in (429, 503):
        time.sleep(int(answer.headers["retry-after"]))
        answer = http.post("/v1/logprobs", json={"model": MODEL, "prompt": prompt, **fields})
    assert answer.status_code == 200, answer.text
    shape = [int(number) for number in answer.headers["x-wordbound-shape"].split(",")]
    return np.frombuffer(answer.content, np.dtype(answer.headers["x-wordbound-dtype"])).reshape(shape)


def assert_alike(found: Any, expected: Any) -> None:
    """Where p matters, and as well as bfloat16 can, in which the service computes where the processor does: between two
    of its numbers near 16, as logits are, is 1/16."""
    likely = expected > np.log(1e-3)
    assert np.abs(found[likely] - expected[likely]).max() < 4 / 16
    assert abs(np.exp(found.astype(float)).sum() - 1) < 1e-2


def test_rows_are_the_models_own(http: httpx2.Client, tokenizer: Any, expected: list[Any]) -> None:
    found = rows(http, list(TEXTS))
    assert (found.shape, found.dtype) == ((len(TEXTS), V), np.float32)
    for one, all_of_text in zip(found, expected, strict=True):
        assert_alike(one, all_of_text[-1])
    as_tokens = rows(http, [tokenizer.encode(text) for text in TEXTS], dtype="float16")
    assert as_tokens.dtype == np.float16
    for one, all_of_text in zip(as_tokens, expected, strict=True):
        assert_alike(one, all_of_text[-1])


def test_the_likeliest_tokens_and_given_ones_agree_with_rows(http: httpx2.Client, tokenizer: Any) -> None:
    tokens = tokenizer.encode(TEXTS[0])
    [row] = rows(http, tokens)
    summary = http.post("/v1/logprobs", json={"prompt": tokens, "top_logprobs": 5}).json()
    [top] = summary["data"]
    assert top["token_ids"][0] == int(row.argmax())
    np.testing.assert_allclose(top["logprobs"], np.sort(row)[:-6:-1], atol=2e-2)
    assert summary["usage"]["prompt_tokens"] == len(tokens)
    scored = http.post("/v1/token_logprobs", json={"prompt": tokens[:2], "token_ids": tokens[2:]}).json()["logprobs"]
    prefixes = [tokens[:end] for end in range(2, len(tokens))]
    from_rows = [row[token] for row, token in zip(rows(http, prefixes), tokens[2:], strict=True)]
    np.testing.assert_allclose(scored, from_rows, atol=0.1)


def test_the_table_has_the_models_tokens(http: httpx2.Client, tokenizer: Any) -> None:
    answer = http.get("/v1/tokens")
    summary = answer.json()
    spelled = [base64.b64decode(token) for token in summary["tokens"]]
    assert summary["vocab_size"] == len(spelled) == V
    for text in (*TEXTS, "Ein Wörtchen über 3 Katzen 🐈"):
        assert b"".join(spelled[token] for token in tokenizer.encode(text)).decode() == text
    assert set(tokenizer.all_special_ids) <= set(summary["special_ids"])
    assert tokenizer.eos_token_id in summary["eos_token_ids"]
    assert http.get("/v1/tokens", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304


@pytest.mark.parametrize(
    ("param", "path", "body"),
    [
        ("prompt", "/v1/logprobs", {"prompt": [V]}),
        ("prompt", "/v1/logprobs", {"prompt": [[1]] * 342}),
        ("prompt", "/v1/logprobs", {"prompt": [1] * 1025}),
        ("prompt", "/v1/logprobs", {"prompt": "a " * 3000}),
        ("top_logprobs", "/v1/logprobs", {"prompt": "a", "top_logprobs": V + 1}),
        ("token_ids", "/v1/token_logprobs", {"prompt": "a", "token_ids": [V]}),
        ("prompt", "/v1/token_logprobs", {"prompt": "a " * 3000, "token_ids": [1]}),
    ],
)
def test_what_cannot_be_answered_is_refused_by_its_name(
    http: httpx2.Client, param: str, path: str, body: dict[str, Any]
) -> None:
    answer = http.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    if param == "prompt" and len(body["prompt"]) == 342:
        assert "at most 341 prompts" in answer.json()["error"]["message"]


def test_two_hundred_requests_for_rows_beside_constrained_chats(
    service: Service, http: httpx2.Client, tokenizer: Any, expected: list[Any]
) -> None:
    """No chat fails or leaves its list, and rows are the model's own among masks."""
    prompts = [tokenizer.encode(text) for text in TEXTS]
    begun = threading.Semaphore(0)

    def chat(seed: int) -> str:
        chunks = iter(service.start("Tell me a story.", ("en", 300), stream=True, max_tokens=32, seed=seed))
        first = next(chunks)
        begun.release()
        return read_stream(itertools.chain([first], chunks)).text

    with ThreadPoolExecutor(232) as pool:
        chats = [pool.submit(chat, seed) for seed in range(32)]
        assert all(begun.acquire(timeout=60) for _ in chats)
        found = [pool.submit(rows, http, prompts[number % len(prompts)]) for number in range(200)]
        for number, future in enumerate(found):
            assert_alike(future.result()[0], expected[number % len(prompts)][-1])
        for answer in chats:
            assert_only_listed_words(answer.result(), "en", 300)
