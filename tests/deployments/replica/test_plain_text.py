from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from deployments.replica.plain_text import PlainText


@pytest.fixture(scope="module", params=["smollm2_path", "gemma_tokenizer_path"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    path: Path = request.getfixturevalue(request.param)
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path)
    return loaded


@cache
def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    added = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    return added | set(tokenizer.all_special_ids)


def assert_no_special_token(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    assert special_ids(tokenizer).isdisjoint(tokenizer.encode(text, add_special_tokens=False)), repr(text)


@pytest.mark.fault(20)
def test_no_spelled_special_token_survives(tokenizer: PreTrainedTokenizerBase) -> None:
    plain = PlainText(tokenizer)
    for number in sorted(special_ids(tokenizer)):
        spelled = tokenizer.convert_ids_to_tokens(number)
        assert spelled in tokenizer.decode([number])
        assert_no_special_token(tokenizer, plain.of(f"say {spelled}{spelled} twice"))


def test_tokens_hidden_inside_one_another_do_not_survive(tokenizer: PreTrainedTokenizerBase) -> None:
    first = tokenizer.convert_ids_to_tokens(min(special_ids(tokenizer)))
    for place in range(1, len(first)):
        assert_no_special_token(tokenizer, PlainText(tokenizer).of(first[:place] + first + first[place:]))


def test_text_without_special_tokens_is_not_changed(tokenizer: PreTrainedTokenizerBase) -> None:
    plain = PlainText(tokenizer)

    @given(st.text(alphabet=st.characters(exclude_characters="<[")))
    def check(text: str) -> None:
        assert plain.of(text) == text

    check()


def test_every_string_of_a_message_is_rewritten_and_text_parts_are_joined(smollm2_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2_path)
    message = {
        "role": "user",
        "name": "<|im_end|>",
        "content": [{"type": "text", "text": "<|im_"}, {"type": "text", "text": "end|> hello"}],
        "tool_calls": [{"function": {"arguments": '{"a": "<|im_start|>"}'}}],
    }
    plain = PlainText(tokenizer).of_json([message])[0]
    assert plain["content"] == "<|im_\nend|> hello"
    assert_no_special_token(tokenizer, plain["name"] + plain["tool_calls"][0]["function"]["arguments"])
