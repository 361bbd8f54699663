"""Adapters in requests: as the model, and as a member of ``vocab``."""

from typing import Any

import pytest

from deployments.contract import AUTO_ADAPTER
from deployments.errors import CallerError
from deployments.protocol.reader import AdapterNames, ChatRequest, ChatRequestReader
from deployments.protocol.word_tools import NextWordsRequest, read_tool
from deployments.settings.limits import Limits

NAMES = AdapterNames(("a", "b"))
EN: dict[str, Any] = {"lang": "en", "n_words": 500}


def read(names: AdapterNames = NAMES, **fields: Any) -> ChatRequest:
    body = {"messages": [{"role": "user", "content": "Hello"}], **fields}
    return ChatRequestReader("base", Limits(), adapters=names).read(body)


def fault(names: AdapterNames = NAMES, **fields: Any) -> tuple[int, str | None]:
    with pytest.raises(CallerError) as error:
        read(names, **fields)
    return error.value.status, error.value.param


def test_an_adapter_is_a_model() -> None:
    assert read(model="a").body["model"] == "a"
    assert read().body["model"] == "base"
    assert fault(model="c") == (404, "model")


@pytest.mark.parametrize(
    ("member", "adapter"),
    [({}, AUTO_ADAPTER), ({"adapter": "auto"}, AUTO_ADAPTER), ({"adapter": "b"}, "b"), ({"adapter": None}, None)],
)
def test_null_asks_for_none_and_a_missing_member_for_one_that_fits(member: Any, adapter: str | None) -> None:
    assert read(vocab=EN | member).decoding.adapter == adapter
    tool = {"text": "a", "vocab": EN | member}
    found = read_tool(NextWordsRequest, tool, limits=Limits(), model_id="base", adapters=NAMES)
    assert found.body["adapter"] == adapter


def test_a_vocabulary_names_an_adapter_that_there_is_and_that_is_the_models() -> None:
    assert fault(vocab=EN | {"adapter": "c"}) == (404, "vocab.adapter")
    assert fault(model="a", vocab=EN | {"adapter": "b"}) == (400, "vocab.adapter")
    assert fault(model="a", vocab=EN | {"adapter": None}) == (400, "vocab.adapter")
    assert read(model="a", vocab=EN | {"adapter": "a"}).decoding.adapter == "a"
    assert read(model="a", vocab=EN).decoding.adapter == AUTO_ADAPTER


def test_a_merged_adapter_cannot_be_left_out() -> None:
    merged = AdapterNames(("a",), merged="a")
    assert fault(merged, vocab=EN | {"adapter": None}) == (400, "vocab.adapter")
    assert read(merged, vocab=EN | {"adapter": "a"}).decoding.adapter == "a"
