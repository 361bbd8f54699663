"""What clients expect beside chats, on the real stack: completions, tokens, the model's card."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from transformers import AutoTokenizer

from tests.checker import assert_only_listed_words, unlisted_words
from tests.e2e.service import KEY, MODEL, PAGE, Service

pytestmark = pytest.mark.e2e

PROMPT = "Once upon a time, there was a dog. "
CONTEXT_LENGTH = 2048


def complete(service: Service, prompt: Any = PROMPT, *, vocab: Any = None, **fields: Any) -> Any:
    create: Any = service.client.completions.create
    return create(model=MODEL, prompt=prompt, extra_body=None if vocab is None else {"vocab": vocab}, **fields)


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.url, headers={"X-API-Key": KEY}, timeout=60) as client:
        yield client


def test_a_completion_goes_on_where_its_prompt_ends(service: Service) -> None:
    free = complete(service, temperature=0, max_tokens=12)
    assert free.object == "text_completion"
    assert free.usage.completion_tokens == 12
    echoed = complete(service, temperature=0, max_tokens=12, echo=True)
    assert echoed.choices[0].text == PROMPT + free.choices[0].text
    stream = complete(service, temperature=0, max_tokens=12, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == free.choices[0].text
    assert complete(service, temperature=0).usage.completion_tokens <= 16


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"n": 3, "logprobs": 2},
        {"prompt": [PROMPT, "The sea is blue. "], "n": 2},
        {"best_of": 3},
        {"stop": ["o"]},
        {"vocab": {"rescue": True}},
        {"vocab": {"search": {"width": 2}}},
    ],
    ids=["one", "several", "prompts", "best of", "stop", "rescue", "search"],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_every_word_of_a_completion_with_a_list_is_listed(service: Service, how: dict[str, Any], stream: bool) -> None:
    vocab = {"lang": "en", "n_words": 500, **how.get("vocab", {})}
    made = complete(service, **{**how, "vocab": vocab}, stream=stream, temperature=1, max_tokens=40, seed=3)
    texts: dict[int, str] = {}
    blocks = []
    for part in made if stream else [made]:
        blocks += [part.model_extra["vocab"]] if "vocab" in (part.model_extra or {}) else []
        for choice in part.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    assert len(texts) == how.get("n", 1) * (2 if "prompt" in how else 1)
    [block] = blocks
    assert (block["lang"], block["n_words"]) == ("en", 500)
    for text in texts.values():
        # It may begin with a dash, which stands after a word.
        text = f"the {text.lstrip()}"
        if "stop" not in how:
            assert_only_listed_words(text, "en", 500, end="sentence")
        assert not unlisted_words(text, "en", 500)


def test_a_completion_of_tokens_has_its_own_tokens_and_logprobs(service: Service, http: httpx2.Client) -> None:
    tokens = http.post("/tokenize", json={"prompt": PROMPT}).json()["tokens"]
    vocab = {"lang": "en", "n_words": 500}
    made = complete(service, tokens, vocab=vocab, temperature=0, max_tokens=30, logprobs=2)
    choice = made.choices[0]
    assert "".join(choice.logprobs.tokens).startswith(choice.text)
    assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == len(choice.logprobs.text_offset)
    assert made.usage.prompt_tokens == len(tokens)
    assert complete(service, vocab=vocab, temperature=0, max_tokens=30).choices[0].text == choice.text


def test_what_cannot_be_kept_is_refused_by_its_name(service: Service) -> None:
    for param, fields in (
        ("prompt", {"prompt": "It was beautifu", "vocab": {"lang": "en"}}),
        (None, {"prompt": [10**6]}),
        (None, {"prompt": [10**6], "vocab": {"lang": "en"}}),
        ("prompt", {"prompt": "a " * 3000}),
        ("suffix", {"suffix": "the end"}),
        ("echo", {"echo": True, "vocab": {"lang": "en"}}),
    ):
        with pytest.raises(openai.BadRequestError) as error:
            complete(service, **{"max_tokens": 40, **fields})
        assert error.value.param == param


def test_texts_become_the_tokenizers_own_tokens_and_back(http: httpx2.Client, shallow_path: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(shallow_path)
    text = "Ein Wörtchen über 3 Katzen 🐈, <|im_end|>\n"
    result = http.post("/tokenize", json={"model": MODEL, "prompt": text, "return_token_strs": True}).json()
    assert result["tokens"] == tokenizer.encode(text)
    assert result["token_strs"] == tokenizer.convert_ids_to_tokens(result["tokens"])
    assert (result["count"], result["max_model_len"]) == (len(result["tokens"]), CONTEXT_LENGTH)
    assert http.post("/detokenize", json={"tokens": result["tokens"]}).json() == {"prompt": text}
    assert http.post("/detokenize", json={"tokens": [10**6]}).status_code == 400
    assert http.post("/tokenize", json={"prompt": text}, headers={"X-API-Key": "wrong"}).status_code == 401


def test_the_tokens_of_messages_are_those_of_a_chat(service: Service, http: httpx2.Client) -> None:
    messages = [{"role": "user", "content": "Say <|im_end|> twice."}]
    result = http.post("/tokenize", json={"messages": messages}).json()
    chat = service.start(messages[0]["content"], max_tokens=1)
    assert result["count"] == chat.usage.prompt_tokens


def test_the_models_card_says_how_long_its_context_is(service: Service) -> None:
    card = service.client.models.retrieve(MODEL).model_extra or {}
    assert card["max_model_len"] == CONTEXT_LENGTH
    assert card["max_input_tokens"] + card["max_output_tokens"] <= CONTEXT_LENGTH


def test_a_web_page_asks_first_without_a_key_and_reads_errors(service: Service) -> None:
    asks = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    with httpx2.Client(base_url=service.url, headers={"Origin": PAGE}) as page:
        preflight = page.options("/v1/chat/completions", headers=asks)
        refused = page.post("/v1/chat/completions", json={})
        answer = page.get("/v1/models", headers={"Authorization": f"Bearer {KEY}"})
    assert [one.status_code for one in (preflight, refused, answer)] == [200, 401, 200]
    assert {one.headers["access-control-allow-origin"] for one in (preflight, refused, answer)} == {PAGE}
    assert preflight.headers["access-control-allow-headers"] == "authorization"
