"""What may follow the prompts of completions, and the form of their answers."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from deployments.errors import EngineError
from deployments.replica.answers.forms import CompletionForm
from deployments.replica.prompts.plain_text import PlainText, reader_after_prompts
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.reader import TextReader

WORDS = WordList("en", ("there", "was", "a", "cat", "the"), "file")


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(smollm2_path)


@pytest.fixture(scope="module")
def plain(tokenizer: Any) -> PlainText:
    return PlainText(tokenizer)


def after(prompt: Any, plain: PlainText) -> TextReader:
    reader = TextReader(WORDS, ListOptions(case="sentence", end="word"), 5)
    return reader_after_prompts(reader, {"prompt": prompt}, plain)


@pytest.mark.parametrize(
    ("prompt", "follows", "does_not_follow"),
    [
        ("Zebedee ran. ", "The cat", " The cat"),
        ("Zebedee ran.", " The cat", "The cat"),
        ("Zebedee saw a", " cat", "cat"),
        ("I am “open<|im_start|>", "The cat", ",cat"),
        ("I am “open<|im_start|>Zebedee ran. ", "The cat", " The cat"),
        ("", "The cat", ",cat"),
    ],
)
def test_prompts_of_text_and_of_tokens_go_on_alike(
    tokenizer: Any, plain: PlainText, prompt: str, follows: str, does_not_follow: str
) -> None:
    tokens = tokenizer.encode(prompt)
    for asked in (prompt, [prompt], [prompt, prompt], *([tokens, [tokens], [tokens, tokens]] if tokens else [])):
        assert after(asked, plain).is_text(follows)
        assert not after(asked, plain).is_text(does_not_follow)


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("There was a ca", "breaks off inside a word: 'ca'"),
        (["There was a cat. ", "There was a ca"], "breaks off inside a word: 'ca'"),
        (["There was a cat. ", "There was a cat"], "texts that end differently"),
        # vLLM's answer would begin with the prompt.
        ("There was a cat. \U00075d71", "which the model's tokenizer cannot spell"),
        (["There was a cat. ", "There was a cat. \ufffd"], "which the model's tokenizer cannot spell"),
    ],
)
def test_a_prompt_inside_a_word_and_prompts_that_end_differently_are_refused(
    plain: PlainText, prompt: Any, says: str
) -> None:
    with pytest.raises(EngineError) as refused:
        after(prompt, plain)
    error = refused.value
    assert (error.status, error.param, says in error.message) == (400, "prompt", True)


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
