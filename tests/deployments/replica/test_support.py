"""What the settings of an engine, and the tokenizer of its model, rule out."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from deployments.contract import Caller, Decoding, ResolvedVocabulary, TextRequest
from deployments.errors import EngineError
from deployments.protocol.rules import check_supported, has_reasoning_parser
from deployments.replica.engine.configuration import with_mask_engine_for
from deployments.settings.service import Settings
from tests.slow_tokenizer import write_slow_tokenizer

TOOLS = [{"type": "function", "function": {"name": "look"}}]
ASKED: dict[str, tuple[Decoding, dict[str, Any]]] = {
    "num_beams": (Decoding(num_beams=4), {}),
    "best_of": (Decoding(best_of=4), {}),
    "vocab.search": (Decoding(search_width=4, select="posterior"), {}),
    "vocab.rescue": (Decoding(rescue=0.1), {}),
    "no_repeat_ngram_size": (Decoding(no_repeat_ngram_size=3), {}),
    "vocab.score": (Decoding(score=True), {}),
    "stream_options.token_details": (Decoding(), {"stream_options": {"token_details": True}}),
    "response_format": (Decoding(), {"response_format": {"type": "json_object"}}),
    "tools": (Decoding(), {"tools": TOOLS, "tool_choice": "required"}),
    "min_tokens": (Decoding(), {"min_tokens": 5}),
    "continue_final_message": (Decoding(), {"continue_final_message": True}),
    "logprobs": (Decoding(), {"logprobs": True}),
    "nothing": (Decoding(hint=True), {"response_format": {"type": "text"}, "tools": TOOLS, "tool_choice": "none"}),
}
STATES = {"num_beams", "vocab.search", "vocab.rescue", "no_repeat_ngram_size"}
SCORES = {"num_beams", "best_of", "vocab.search", "vocab.rescue", "vocab.score", "stream_options.token_details"}
JSON = {"response_format", "tools", "continue_final_message"}
THINKS: list[dict[str, Any]] = [
    {"reasoning_parser": "some"}, {"structured_outputs_config": {"reasoning_parser": "some"}},
]  # fmt: skip
DRAFTS = {"speculative_config": {"method": "ngram"}}
RULED_OUT: list[tuple[dict[str, Any], bool, set[str], set[str]]] = [
    ({}, True, set(), set()),
    ({"mask_engine": "xgrammar"}, True, STATES | JSON | {"min_tokens"}, set()),
    *(({"engine_kwargs": kwargs}, True, SCORES | JSON | {"logprobs"}, SCORES) for kwargs in THINKS),
    ({"engine_kwargs": DRAFTS}, True, SCORES, SCORES),
    ({}, False, SCORES, set()),
]
"""Settings, whether the engine says what a list costs, and the fields that are refused with a list and without."""


def test_the_fields_that_an_engine_cannot_do_are_refused_by_their_names() -> None:
    faults = []
    for given, reports_cost, with_list, without in RULED_OUT:
        settings = Settings.load({"secret_token": "k", **given}, {})
        for expected, is_listed in ((with_list, True), (without, False)):
            listed = ResolvedVocabulary(digest="d", lang="en", n_words=1, fewest_tokens=1) if is_listed else None
            refused = set()
            for name, (how, body) in ASKED.items():
                try:
                    request = TextRequest(body, listed, how, Caller("owner", "id"))
                    thinks = has_reasoning_parser(settings)
                    check_supported(request, settings, thinks=thinks, reports_cost=reports_cost)
                except EngineError as error:
                    assert (error.status, error.param) == (400, name)
                    assert f"'{name}' is not available here" in error.message
                    refused.add(name)
            if refused != expected:
                faults.append((given, reports_cost, is_listed, refused ^ expected))
    assert not faults


def test_a_tokenizer_without_a_fast_implementation_has_lists_sent_as_grammars(
    tmp_path: Path, smollm2_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = AutoTokenizer.from_pretrained(write_slow_tokenizer(tmp_path))
    fast = AutoTokenizer.from_pretrained(smollm2_path)
    automaton, xgrammar = (
        Settings.load({"secret_token": "k", "model_id": "some/model", "mask_engine": name}, {})
        for name in ("automaton", "xgrammar")
    )
    for tokenizer, settings in ((fast, automaton), (fast, xgrammar), (slow, xgrammar)):
        assert with_mask_engine_for(tokenizer, settings) == settings
    assert not [record for record in caplog.records if record.name == "ray.serve"]
    sent = with_mask_engine_for(slow, automaton)
    assert sent.model_dump() == {**automaton.model_dump(), "mask_engine": "xgrammar"}
    [warning] = [record.getMessage() for record in caplog.records if record.name == "ray.serve"]
    for part in ("some/model", "GPTSw3Tokenizer", "no fast implementation", "num_beams", "vocab.search"):
        assert part in warning
