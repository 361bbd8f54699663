"""What cannot stand together in a request, and what needs something else: every row of both tables."""

from collections.abc import Callable, Iterator
from typing import Any

from deployments.protocol.generation import ChatCompletionRequest, CompletionRequest
from deployments.protocol.rules import HARMLESS, LISTED_JSON, NEEDS, RULES, SEARCH, SEVERAL_PROMPTS, VOCABULARY
from tests.deployments.protocol.readers import (
    GOOD,
    PREFILL,
    TOOL,
    Fault,
    not_taken,
    read_chat,
    read_completion,
    refused_otherwise,
)

LIST = {"lang": "en", "n_words": 1000}
ASKS: dict[str, dict[str, Any]] = {
    **{name: {name: value} for name, value in GOOD},
    VOCABULARY: {"vocab": LIST},
    LISTED_JSON: {"vocab": LIST, "response_format": {"type": "json_object"}},
    SEARCH: {"best_of": 4},
    SEVERAL_PROMPTS: {"prompt": ["a", "b"]},
    "best_of": {"best_of": 4},
    "continue_final_message": PREFILL,
    "echo": {"echo": True},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "num_beams": {"num_beams": 4},
    "stream_options.token_details": {"stream": True, "stream_options": {"token_details": True}},
    "tool_choice": {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}},
    "vocab.layout": {"vocab": {**LIST, "layout": "lines"}},
    "vocab.max_sentence_words": {"vocab": {**LIST, "max_sentence_words": 8}},
    "vocab.max_sentences": {"vocab": {**LIST, "max_sentences": 2}},
    "vocab.min_sentences": {"vocab": {**LIST, "min_sentences": 2}},
    "vocab.must_use": {"vocab": {**LIST, "must_use": [{"word": "dog"}]}},
    "vocab.new_words": {"vocab": {**LIST, "new_words": {"n_words": 3000}}},
    "vocab.prompt_words": {"vocab": {**LIST, "prompt_words": True}},
    "vocab.rescue": {"vocab": {**LIST, "rescue": True}},
    "vocab.search": {"vocab": {**LIST, "search": {"width": 4}}},
}
"""What asks for each thing."""


def together(beside: str, *others: dict[str, Any]) -> dict[str, Any]:
    """A request that asks for one thing, and has these fields too."""
    asked = dict(ASKS[beside])
    for fields in others:
        vocab = {**asked.get("vocab", {}), **fields.get("vocab", {})}
        asked |= {**fields, "vocab": vocab} if vocab else fields
    return asked


def ruled() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Each rule's one thing, each that it refuses beside it, and the reader of such requests."""
    for rule in RULES:
        for name in rule.refused:
            is_completion = name == "echo" or rule.beside == SEVERAL_PROMPTS
            yield rule.beside, name, completion if is_completion else read_chat


def completion(**fields: Any) -> Any:
    """A completion, whose ``logprobs`` are a number."""
    return read_completion(**fields | ({"logprobs": 1} if fields.get("logprobs") else {}))


def test_what_cannot_stand_beside_another_thing_is_refused_by_its_name() -> None:
    for beside, name, read in ruled():
        fault = (together(beside, ASKS[name]), name, f"'{name}' cannot be combined with")
        assert not refused_otherwise([fault], read), beside


def test_the_rules_that_keep_a_text_in_its_list_and_searches_apart_are_there() -> None:
    needed = {
        VOCABULARY: "add_generation_prompt allowed_token_ids echo ignore_eos logprob_token_ids repetition_detection "
        "skip_special_tokens stop_token_ids structured_outputs",
        LISTED_JSON: "stop no_repeat_ngram_size vocab.layout vocab.max_sentences",
        "num_beams": "best_of vocab.search vocab.rescue",
        "best_of": "vocab.search vocab.rescue",
        "vocab.search": "vocab.rescue",
        "tools": "vocab.prompt_words",
        SEARCH: "echo stream_options.token_details",
        "logprobs": "echo stream_options.token_details",
        "logprob_token_ids": "stream_options.token_details",
    }
    assert {(beside, name) for beside, names in needed.items() for name in names.split()} <= {
        (beside, name) for beside, name, _ in ruled()
    }


def test_what_asks_for_nothing_can_stand_beside_anything() -> None:
    for beside, name, read in ruled():
        for value in (None, *HARMLESS.get(name, ())):
            if "." not in name and name not in ASKS[beside]:
                assert not not_taken([together(beside, {name: value})], read), (beside, name)


def test_what_means_the_same_in_a_search_goes_with_it() -> None:
    same: list[dict[str, Any]] = [{"seed": 1}, {"stream": True}, {"user": "u"}, {"tools": [], "tool_choice": "none"}]
    for search in ("num_beams", "best_of", "vocab.search", "vocab.rescue"):
        assert not not_taken(together(search, fields) for fields in same)
    drawn = {"temperature": 0.7, "top_p": 0.9, "top_k": 50, "min_p": 0.1, "logit_bias": {"17": 5.0}}
    for search in ("best_of", "vocab.search"):
        assert drawn.items() <= read_chat(**together(search, drawn)).body.items()


def test_what_needs_another_thing_is_refused_alone() -> None:
    faults: list[Fault] = [
        ({"length_penalty": 0.8}, "length_penalty", "need"),
        ({"length_penalty": 0.8, "best_of": 4}, "length_penalty", "need"),
        ({"early_stopping": True}, "early_stopping", "need"),
        ({"early_stopping": "never", **ASKS["vocab.search"]}, "early_stopping", "need"),
        ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size", "need"),
        ({"no_repeat_ngram_size": 3, "best_of": 4}, "no_repeat_ngram_size", "need"),
        ({"vocab": {**LIST, "select": "likelihood"}}, "vocab.select", "need"),
        ({"vocab": {**LIST, "select": "posterior"}, "best_of": 1}, "vocab.select", "need"),
        ({"vocab": {**LIST, "select": "posterior"}, "num_beams": 4}, "vocab.select", "need"),
        ({"top_logprobs": 2}, "top_logprobs", "need"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "need"),
        ({"stream": True, "stream_options": {"top_k": 3}}, "stream_options.top_k", "'stream_options.token_details'"),
        ({"tool_choice": "required"}, "tool_choice", "need"),
        # The score of a text alone is a search in this.
        (
            together("stream_options.token_details", {"vocab": {**LIST, "score": True}}),
            "stream_options…",
            "'vocab.score'",
        ),
    ]
    assert {param for _, param, _ in faults} >= {name for name, *_ in NEEDS}
    assert not refused_otherwise(faults)
    assert not not_taken(
        [
            {"length_penalty": 1},
            {"length_penalty": 1.0, "early_stopping": False},
            {"no_repeat_ngram_size": 0},
            {"no_repeat_ngram_size": 3, "vocab": LIST},
            {"no_repeat_ngram_size": 64, "num_beams": 2},
            {"stream": True, "stream_options": {"token_details": True, "top_k": 0}, "logprobs": False},
        ]
    )


def test_the_names_of_what_asks_for_nothing_exist() -> None:
    assert HARMLESS.keys() <= CompletionRequest.model_fields.keys() | ChatCompletionRequest.model_fields.keys()
