"""What the settings of an engine, and the tokenizer of its model, rule out."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from deployments.contract import Caller, Decoding, ResolvedVocabulary, TextRequest
from deployments.errors import EngineError
from deployments.replica.answers.support import check_supported, with_mask_engine_for
from deployments.settings.service import Settings
from tests.slow_tokenizer import write_slow_tokenizer

PLAIN = Decoding()
FIELDS: dict[str, Decoding] = {
    "num_beams": Decoding(num_beams=4),
    "best_of": Decoding(best_of=4),
    "vocab.search": Decoding(search_width=4, select="posterior"),
    "vocab.rescue": Decoding(rescue=0.1),
    "no_repeat_ngram_size": Decoding(no_repeat_ngram_size=3),
    "vocab.score": Decoding(score=True),
    "nothing": Decoding(hint=True),
}


def check(
    settings: Settings,
    *,
    is_constrained: bool = True,
    reports_cost: bool = True,
    decoding: Decoding = PLAIN,
    **body: Any,
) -> None:
    vocabulary = ResolvedVocabulary(digest="d", lang="en", n_words=1, fewest_tokens=1) if is_constrained else None
    request = TextRequest(body, vocabulary, decoding, Caller("owner", "id"))
    check_supported(request, settings, reports_cost=reports_cost)


def refused(*, is_constrained: bool = True, reports_cost: bool = True, **settings: Any) -> set[str]:
    """The fields that these settings rule out."""
    loaded = Settings.load({"secret_token": "k", **settings}, {})
    names = set()
    for name, decoding in FIELDS.items():
        try:
            check(loaded, is_constrained=is_constrained, reports_cost=reports_cost, decoding=decoding)
        except EngineError as error:
            assert (error.status, error.param) == (400, name)
            assert f"'{name}' is not available here" in error.message
            names.add(name)
    return names


def test_token_details_need_the_probabilities_of_the_answer() -> None:
    for kwargs in ({"reasoning_parser": "some"}, {"speculative_config": {"method": "ngram"}}):
        loaded = Settings.load({"secret_token": "k", "engine_kwargs": kwargs}, {})
        with pytest.raises(EngineError) as raised:
            check(loaded, is_constrained=False, stream_options={"token_details": True})
        assert raised.value.param == "stream_options.token_details"


@pytest.mark.parametrize(
    "settings", [{"mask_engine": "xgrammar"}, {"engine_kwargs": {"reasoning_parser": "some"}}], ids=str
)
def test_json_in_listed_words_needs_the_automaton_and_no_thoughts(settings: Any) -> None:
    loaded = Settings.load({"secret_token": "k", **settings}, {})
    tools = [{"type": "function", "function": {"name": "look"}}]
    for name, body in (
        ("response_format", {"response_format": {"type": "json_object"}}),
        ("tools", {"tools": tools, "tool_choice": "required"}),
    ):
        with pytest.raises(EngineError) as raised:
            check(loaded, **body)
        assert raised.value.param == name
    check(loaded, response_format={"type": "text"}, tools=tools, tool_choice="none")


def test_the_automaton_can_do_everything() -> None:
    assert refused() == set()
    assert refused(is_constrained=False) == set()


def test_a_grammar_knows_no_states_to_continue_from() -> None:
    assert refused(mask_engine="xgrammar") == {"num_beams", "vocab.search", "vocab.rescue", "no_repeat_ngram_size"}
    assert refused(mask_engine="xgrammar", is_constrained=False) == set()


@pytest.mark.parametrize(
    "engine_kwargs",
    [
        {"reasoning_parser": "some"},
        {"structured_outputs_config": {"reasoning_parser": "some"}},
        {"speculative_config": {"method": "ngram"}},
    ],
)
@pytest.mark.parametrize("is_constrained", [True, False])
def test_an_engine_that_thinks_or_drafts_scores_no_texts(engine_kwargs: Any, is_constrained: bool) -> None:
    result = refused(engine_kwargs=engine_kwargs, is_constrained=is_constrained)
    assert result == {"num_beams", "best_of", "vocab.search", "vocab.rescue", "vocab.score"}


def test_an_engine_that_does_not_tell_the_cost_of_a_list_can_search_free_text_only() -> None:
    assert refused(reports_cost=False) == {"num_beams", "best_of", "vocab.search", "vocab.rescue", "vocab.score"}
    assert refused(reports_cost=False, is_constrained=False) == set()


def test_a_tokenizer_without_a_fast_implementation_has_lists_sent_as_grammars(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings.load({"secret_token": "k", "model_id": "some/model", "mask_engine": "automaton"}, {})
    tokenizer = AutoTokenizer.from_pretrained(write_slow_tokenizer(tmp_path))
    sent = with_mask_engine_for(tokenizer, settings)
    assert sent.model_dump() == {**settings.model_dump(), "mask_engine": "xgrammar"}
    [warning] = [record.getMessage() for record in caplog.records if record.name == "ray.serve"]
    for part in ("some/model", "GPTSw3Tokenizer", "no fast implementation", "num_beams", "vocab.search"):
        assert part in warning


@pytest.mark.parametrize("mask_engine", ["automaton", "xgrammar"])
def test_a_tokenizer_with_one_has_what_is_set(
    smollm2_path: Path, mask_engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings.load({"secret_token": "k", "mask_engine": mask_engine}, {})
    assert with_mask_engine_for(AutoTokenizer.from_pretrained(smollm2_path), settings) == settings
    assert not caplog.records


def test_xgrammar_as_it_was_asked_for_needs_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings.load({"secret_token": "k", "mask_engine": "xgrammar"}, {})
    tokenizer = AutoTokenizer.from_pretrained(write_slow_tokenizer(tmp_path))
    assert with_mask_engine_for(tokenizer, settings) == settings
    assert not [record for record in caplog.records if record.name == "ray.serve"]
