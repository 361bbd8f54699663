"""The page on writing with a list says what the service takes and answers."""

import ast
import json
import re
from pathlib import Path

from deployments.protocol.authoring import AuthorMembers
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import LIMITS, chat_body

PAGE = (Path(__file__).parent.parent / "docs" / "authoring.md").read_text()


def test_the_example_is_taken() -> None:
    [extra] = re.findall(r"extra_body=(\{.*?\n    \}),$", PAGE, re.DOTALL | re.MULTILINE)
    author = ChatRequestReader("m", LIMITS).read({**chat_body(**ast.literal_eval(extra)), "model": "m"}).decoding.author
    assert author is not None
    assert [asked.word for asked in author.must_use] == ["river", "go"]


def test_every_member_has_a_row() -> None:
    rows = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE))))
    assert set(AuthorMembers.model_fields) <= rows


def test_the_block_of_the_answer_is_json() -> None:
    [block] = re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert set(json.loads(block)) == {"new_words", "must_use", "num_sentences", "longest_sentence"}
