"""Answers that are large to build block no loop, and one beyond the limit is refused by its name."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, KEYS, MODEL, Service
from tests.event_loop_watch import BLOCKED

pytestmark = pytest.mark.e2e

NUM_TEXTS, NUM_TOKENS, NUM_TOP = 8, 280, 20
NUM_WORDS = 1000
VOCAB = {"lang": "en", "n_words": NUM_WORDS, "end": "word"}


def post(service: Service, path: str, body: dict[str, Any]) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx2.post(f"{service.url}{path}", json={"model": MODEL, **body}, headers=headers, timeout=300)


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Tell me about the sea."}], **fields}


def largest_gap_s(service: Service, is_over: Any) -> float:
    """The longest time between two parts of streams of another key, one after the other."""
    longest = 0.0
    headers = {"Authorization": f"Bearer {KEYS['other']}"}
    while not is_over():
        body = {"model": MODEL, **chat(max_tokens=400, stream=True, ignore_eos=True)}
        url = f"{service.url}/v1/chat/completions"
        with httpx2.stream("POST", url, json=body, headers=headers, timeout=300) as answer:
            last: float | None = None
            for _ in answer.iter_lines():
                now = time.monotonic()
                longest, last = max(longest, 0.0 if last is None else now - last), now
                if is_over():
                    break
    return longest


@pytest.mark.fault(73)
def test_many_logprobs_block_no_loop_while_another_key_is_served(service: Service) -> None:
    listed = chat(
        n=NUM_TEXTS, max_tokens=NUM_TOKENS, min_tokens=NUM_TOKENS, logprobs=True, top_logprobs=NUM_TOP, vocab=VOCAB
    )
    free = {"prompt": "Once", "n": NUM_TEXTS, "max_tokens": NUM_TOKENS, "ignore_eos": True, "logprobs": NUM_TOP}
    seen = len(service.log_path.read_text(errors="replace"))
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(
            lambda: (post(service, "/v1/chat/completions", listed), post(service, "/v1/completions", free))
        )
        gap_s = largest_gap_s(service, asked.done)
        of_chat, of_completion = asked.result()
    assert of_chat.status_code == of_completion.status_code == 200, (of_chat.text[:500], of_completion.text[:500])
    for choice in of_chat.json()["choices"]:
        assert_only_listed_words(choice["message"]["content"], "en", NUM_WORDS)
        entries = choice["logprobs"]["content"]
        assert len(entries) >= NUM_TOKENS - 1
        assert b"".join(bytes(one["bytes"]) for one in entries).decode().startswith(choice["message"]["content"][:50])
        assert all(0 < len(one["top_logprobs"]) <= NUM_TOP for one in entries[:50])
    for choice in of_completion.json()["choices"]:
        logprobs = choice["logprobs"]
        assert {len(values) for values in logprobs.values()} == {NUM_TOKENS}
        assert all(NUM_TOP <= len(top) <= NUM_TOP + 1 for top in logprobs["top_logprobs"])
    assert gap_s, "another key's stream had no two parts meanwhile"
    print(f"another key's stream: {gap_s:.2f} s at most between two parts")
    # The loops were blocked for 3 s, whatever else the machine did. The watch writes when the loop goes on.
    time.sleep(2)
    written = service.log_path.read_text(errors="replace")[seen:]
    blocked = [
        line
        for line in written.splitlines()
        if (found := re.search(rf"{BLOCKED} (\d+\.\d+) s", line)) and float(found[1]) > 1
    ]
    assert not blocked, "\n".join(blocked)


@pytest.mark.fault(73)
def test_more_logprobs_than_an_answer_may_have_are_refused_by_the_name_of_the_limit(service: Service) -> None:
    answer = post(service, "/v1/chat/completions", chat(n=8, max_tokens=600, logprobs=True, top_logprobs=20))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "top_logprobs"
    assert "at most 50000 log-probabilities" in error["message"]
    assert "100800" in error["message"]


@pytest.mark.parametrize(
    "fields", [{}, {"vocab": VOCAB}, {"vocab": {**VOCAB, "score": True}}, {"vocab": {**VOCAB, "rescue": 0.2}}]
)
def test_several_texts_at_temperature_0_are_the_same(service: Service, fields: dict[str, Any]) -> None:
    asked = chat(n=3, temperature=0, max_tokens=12, **fields)
    whole = post(service, "/v1/chat/completions", asked)
    assert whole.status_code == 200, whole.text
    choices = whole.json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    [text] = {choice["message"]["content"] for choice in choices}
    assert text
    streamed = post(service, "/v1/chat/completions", {**asked, "stream": True})
    assert streamed.status_code == 200, streamed.text
    texts = ["", "", ""]
    for chunk in re.findall(r"^data: (\{.*\})$", streamed.text, re.MULTILINE):
        for choice in httpx2.Response(200, text=chunk).json()["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == [text] * 3


def test_several_completions_at_temperature_0_are_the_same(service: Service) -> None:
    body = {"prompt": ["Once upon", "There was"], "n": 2, "temperature": 0, "max_tokens": 6, "logprobs": 2}
    choices = post(service, "/v1/completions", body).json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    assert choices[0]["text"] == choices[1]["text"] != choices[2]["text"] == choices[3]["text"]
    for choice in choices:
        assert choice["logprobs"]["tokens"] and "".join(choice["logprobs"]["tokens"]) == choice["text"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (chat(tools=[{"type": "function", "function": {"name": "look"}}], tool_choice="auto"), "tool_choice"),
        (chat(thinking_token_budget=5), "thinking_token_budget"),
    ],
)
def test_a_refusal_names_the_field_and_no_option_of_the_server(
    service: Service, body: dict[str, Any], param: str
) -> None:
    answer = post(service, "/v1/chat/completions", {**body, "max_tokens": 5})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert "--" not in answer.json()["error"]["message"]
