"""What an error says, for each kind of field: its place and what is expected, never the value."""

from typing import Any

import pytest

from deployments.errors import BadRequestError
from deployments.protocol.generation import ChatCompletionRequest
from deployments.protocol.validation import json_schema, validate
from deployments.settings.limits import Limits
from tests.deployments.front import chat_body
from tests.deployments.protocol.readers import refusal

CANARY = "canary"
ASKED = [{"role": "user", "content": "a"}] * 3

ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"stream": CANARY}, "'stream' must be true or false."),
    ({"n": CANARY}, "'n' must be an integer from 1 to 8."),
    ({"temperature": CANARY}, "'temperature' must be a number from 0 to 2."),
    ({"top_p": 0}, "'top_p' must be a number from 1e-06 to 1."),
    ({"repetition_penalty": 1e-300}, "'repetition_penalty' must be a number from 0.01 to 10."),
    ({"user": 5}, "'user' must be a string of at most 1024 characters."),
    ({"vocab": {"lang": "en", "case": CANARY}}, "'vocab.case' must be one of 'auto', 'sentence', 'any', 'listed'."),
    ({"modalities": [CANARY]}, "'modalities[0]' must be 'text'."),
    ({"early_stopping": CANARY}, "'early_stopping' must be true or false or 'never'."),
    ({"bad_words": CANARY}, "'bad_words' must be a list of at most 100 items."),
    ({"tools": [{"type": "function"}]}, "'tools[0].function' is missing: it must be an object."),
    ({"messages": [*ASKED, {"role": "user", "content": 5}]}, "'messages[3].content' must be a string or a list of at"),
    ({"messages": [{"role": CANARY}]}, "'messages[0].role' must be one of 'system', 'developer', 'user', 'assistant',"),
    (
        {"vocab": {"words": ["a", "b", 5]}},
        "'vocab.words[2]' must be a string of at least 1 and at most 100 characters.",
    ),
    ({"vocab": {"lang": "\n"}}, "'vocab.lang' must be the name of a word list, a string of at least 1"),
    ({"logit_bias": {CANARY: 1}}, "'logit_bias' must be an object of at most 300 members, of a string like ^(0|[1-9]"),
    (
        {"vocab": {"lang": "en", "search": {CANARY: 4}}},
        f"Unknown member of 'vocab.search': '{CANARY}'. Known",
    ),
    ({"stream_options": {"include_usages": 1}}, "Unknown member of 'stream_options': 'include_usages'. Did you mean"),
]


def test_an_error_names_the_place_and_what_is_expected() -> None:
    for fields, message in ERRORS:
        found = refusal(**fields).message
        assert found.startswith(message)
        assert CANARY not in found or "Unknown" in found


def test_each_service_has_its_own_bounds() -> None:
    for most in (2, 5):
        limits = Limits(max_n=most)
        assert json_schema(ChatCompletionRequest, limits)["properties"]["n"]["anyOf"][0]["maximum"] == most
        assert validate(ChatCompletionRequest, chat_body(n=most), limits).n == most
        with pytest.raises(BadRequestError, match=f"from 1 to {most}"):
            validate(ChatCompletionRequest, chat_body(n=most + 1), limits)
