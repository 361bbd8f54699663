"""Completions, and the tokens of a text: their way to the graph and back, with the layers of a chat around it."""

from typing import Any

import openai
import pytest

from tests.deployments.front import (
    COMPLETIONS,
    KEY,
    KEYS,
    MODEL,
    Front,
    assert_error,
    chat_body,
    completion_body,
)
from tests.deployments.stand_in import CONTEXT_LENGTH, FEWEST_TOKENS, WORDS

VOCAB = {"lang": "en", "n_words": 1000}
MESSAGES = chat_body()["messages"]


def test_the_openai_package_completes_a_text_whole_and_as_a_stream(front: Front) -> None:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{front.port}/v1", api_key=KEY, max_retries=0) as client:
        whole = client.completions.create(model=MODEL, prompt="Once", extra_body={"vocab": VOCAB})
        assert (whole.object, whole.choices[0].text) == ("text_completion", "".join(WORDS))
        with client.completions.create(model=MODEL, prompt=["Once", "Twice"], stream=True) as stream:
            assert "".join(chunk.choices[0].text for chunk in stream) == "".join(WORDS)
        with pytest.raises(openai.BadRequestError, match="'suffix' is not supported here"):
            client.completions.create(model=MODEL, prompt="Once", suffix="upon a time")
        broken = client.completions.create(model=MODEL, prompt="please fail later", stream=True)
        with broken, pytest.raises(openai.APIError, match="The server failed"):
            list(broken)


def test_a_completion_reaches_the_replica_in_its_keys_name(front: Front) -> None:
    for key in (KEY, *KEYS.values()):
        with front.client(key) as client:
            body = completion_body([1, 2], cache_salt="mine", vocab=VOCAB)
            assert client.post(COMPLETIONS, json=body).status_code == 200
    assert [call.caller.owner for call in front.backend.calls] == ["default", *KEYS]
    call = front.backend.calls[0]
    assert call.body == completion_body([1, 2], max_tokens=16, temperature=0.3, min_p=0.1, presence_penalty=1.0)
    assert call.vocabulary is not None
    assert call.vocabulary.n_words == 1000


def test_each_fault_of_a_completion_has_its_status(front: Front) -> None:
    def post(**fields: Any) -> Any:
        return front.post(COMPLETIONS, completion_body(**fields))

    assert_error(post(prompt=""), 400, param="prompt")
    assert_error(post(echo=True, vocab=VOCAB), 400, param="echo")
    assert_error(post(vocab=VOCAB, max_tokens=FEWEST_TOKENS - 1), 400, param="max_tokens")
    assert_error(post(vocab={"lang": "xx"}), 400, param="vocab.lang", code="invalid_vocabulary")
    assert_error(post(prompt="please refuse"), 400, code="context_length_exceeded")
    assert_error(post(prompt="please be busy"), 503, code="overloaded")
    assert "secret" not in assert_error(post(prompt="please fail"), 500, code="internal_error")["message"]
    assert_error(post(model="other"), 404, param="model", code="model_not_found")
    with front.client(key=None) as client:
        assert_error(client.post(COMPLETIONS, json=completion_body()), 401, code="invalid_api_key")
        assert_error(client.post("/tokenize", json={"prompt": "a"}), 401, code="invalid_api_key")
    assert_error(front.get(COMPLETIONS), 405)


def test_a_text_becomes_tokens_and_tokens_text(front: Front) -> None:
    result = front.post("/tokenize", {"prompt": "Hé", "return_token_strs": True}).json()
    assert result == {"count": 2, "max_model_len": CONTEXT_LENGTH, "tokens": [72, 233], "token_strs": ["H", "é"]}
    assert front.post("/detokenize", {"tokens": result["tokens"], "model": MODEL}).json() == {"prompt": "Hé"}
    assert front.post("/tokenize", {"messages": MESSAGES}).json()["count"] == len(MESSAGES[0]["content"])
    assert [call.caller.owner for call in front.backend.calls] == ["default"] * 3


def test_a_text_is_bounded_as_all_bodies_are(front: Front) -> None:
    assert_error(front.post("/tokenize", {"prompt": "a" * 2**20}), 413)
    assert_error(front.post("/detokenize", {"tokens": [1, "a"]}), 400, param="tokens[1]")
    assert_error(front.post("/tokenize", {"prompt": "please fail"}), 500, code="internal_error")
    assert_error(front.post("/tokenize", {"prompt": "please be busy"}), 503, code="overloaded")
    with front.client() as client:
        assert_error(client.post("/tokenize", content=b"[]", headers={"Content-Type": "application/json"}), 400)
        assert_error(client.post("/tokenize", content=b"a"), 415)
    assert_error(front.get("/tokenize"), 405)


def test_the_model_card_says_how_much_the_model_reads(front: Front) -> None:
    card = front.get(f"/v1/models/{MODEL}").json()
    assert (card["max_model_len"], card["max_input_tokens"], card["max_output_tokens"]) == (CONTEXT_LENGTH, 1024, 1024)
    front.backend.ready = False
    assert "max_model_len" not in front.get("/v1/models").json()["data"][0]
