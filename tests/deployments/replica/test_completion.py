"""Where the prompt of a completion may end, and the form of its answers."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from deployments.replica.completion import CompletionForm, check_prompts, ends_inside_word
from deployments.replica.engine import EngineError
from deployments.replica.plain_text import PlainText


@pytest.mark.parametrize("text", ["", "a ", "a\n", "a.", "Sí!", "He said “No.”", "¿Qué?)", "Answer:", "كتاب۔"])
def test_a_new_word_can_begin_behind_a_blank_or_a_sentence(text: str) -> None:
    assert not ends_inside_word(text)


@pytest.mark.parametrize(
    "text", ["a", "cat", "well-", "don'", "don’", "3", "a,", "“", "(", "café", "e\u0301", "a_", "no“"]
)
def test_elsewhere_it_could_be_part_of_the_last_one(text: str) -> None:
    assert ends_inside_word(text)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(smollm2_path)


def test_prompts_of_text_and_of_tokens_are_held_to_the_same(tokenizer: Any) -> None:
    plain = PlainText(tokenizer)
    for text, is_right in (("There was a ", True), ("There was a", False), ("<|im_start|>", True), ("The end.", True)):
        tokens = tokenizer.encode(text)
        for prompt in (text, [text], ["Hello. ", text], tokens, [tokens], [tokenizer.encode("a "), tokens]):
            if is_right:
                check_prompts({"prompt": prompt}, plain)
            else:
                with pytest.raises(EngineError, match="'prompt' must end with a blank"):
                    check_prompts({"prompt": prompt}, plain)


def choice(text: str, **fields: Any) -> dict[str, Any]:
    logprobs = {"tokens": [text], "token_logprobs": [-1.0], "top_logprobs": [{text: -1.0}], "text_offset": [0]}
    return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": None, **fields}


@pytest.mark.parametrize(("is_stream", "part"), [(False, "message"), (True, "delta")])
def test_an_answer_has_the_form_of_a_chat_while_it_is_read(is_stream: bool, part: str) -> None:
    answer = {"id": "x", "choices": [choice("one ", prompt_token_ids=[7]), {**choice("two"), "logprobs": None}]}
    form = CompletionForm(is_stream=is_stream)
    chat = form.to_chat(answer)
    assert [one[part]["content"] for one in chat["choices"]] == ["one ", "two"]
    assert [entry["token"] for entry in chat["choices"][0]["logprobs"]["content"]] == ["one "]
    assert form.from_chat(chat) == answer


def test_the_tokens_of_the_prompt_wait_for_the_first_part_that_is_sent() -> None:
    form = CompletionForm(is_stream=True)
    form.to_chat({"choices": [choice("o", prompt_token_ids=[7])]})
    later = form.from_chat(form.to_chat({"choices": [choice("ne ")]}))
    assert later["choices"][0]["prompt_token_ids"] == [7]
    assert "prompt_token_ids" not in form.from_chat(form.to_chat({"choices": [choice("two")]}))["choices"][0]
