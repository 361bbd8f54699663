"""The page on decoding says what the service takes: its examples, its table of fields, its errors."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from deployments.contract import Decoding
from deployments.errors import BadRequestError
from deployments.protocol.decoding import DecodingFields, DecodingMembers
from deployments.protocol.reader import ChatRequestReader
from deployments.replica.hint import ENGLISH
from tests.deployments.front import LIMITS, MODEL, chat_body

PAGE = (Path(__file__).parent.parent / "docs" / "decoding.md").read_text()
EXAMPLES = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)]
ERRORS = [(json.loads(text), param) for text, param in re.findall(r"^\| `(\{.*\})` \| `([\w.]+)` \|$", PAGE, re.M)]
READER = ChatRequestReader(MODEL, LIMITS)
CONSTRAINED = Decoding(hint=True)
"""Of a request with a vocabulary that says nothing of how its text is chosen."""


def test_the_page_has_examples_and_errors() -> None:
    assert len(EXAMPLES) >= 5
    assert len(ERRORS) >= 20


@pytest.mark.parametrize("fields", EXAMPLES, ids=str)
def test_every_example_is_taken_and_asks_for_something(fields: dict[str, Any]) -> None:
    chat, plain = (READER.read(chat_body(**asked)) for asked in (fields, {"vocab": {"lang": "en"}}))
    assert (chat.decoding, chat.body) != (plain.decoding, plain.body)


def test_the_example_for_the_openai_package_is_taken() -> None:
    [extra] = re.findall(r"extra_body=(\{.*\}),$", PAGE, re.MULTILINE)
    assert READER.read(chat_body(**ast.literal_eval(extra))).decoding == CONSTRAINED.model_copy(update={"best_of": 4})


@pytest.mark.parametrize(("fields", "param"), ERRORS, ids=str)
def test_every_error_is_one_and_names_the_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        READER.read(chat_body(**fields))
    assert caught.value.param == param


def test_every_field_has_a_row() -> None:
    rows = set(re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE))
    assert {*DecodingFields.model_fields, *(f"vocab.{name}" for name in DecodingMembers.model_fields), "n"} <= rows


def test_the_english_line_is_quoted_as_it_is() -> None:
    assert f'"{ENGLISH}"' in re.sub(r"\s+", " ", PAGE)
