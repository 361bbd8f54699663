import pickle
import time
from typing import Any

import pytest

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.errors import BadRequestError, ModelNotFoundError
from deployments.protocol.decoding import DEFAULT_SAMPLING
from deployments.protocol.generation import ChatCompletionRequest
from deployments.protocol.listed_json import listed_schema
from deployments.protocol.reader import ChatRequestReader, check_max_tokens
from tests.deployments.front import LIMITS, MODEL, chat_body
from tests.deployments.protocol.readers import (
    GOOD,
    PREFILL,
    READER,
    TOOL,
    each,
    limited,
    not_taken,
    read_chat,
    refusal,
    refused_otherwise,
)
from vocab.matching.structure.schema import StringKind

VOCABULARY: dict[str, Any] = {"vocab_lang": "en", "vocab_n_words": 1000}


@pytest.mark.fault(17)
def test_null_is_the_same_as_nothing() -> None:
    for name in {*dict(GOOD), *ChatCompletionRequest.unsupported, *VOCABULARY}:
        assert read_chat(**{name: None}).body == read_chat().body, name


BAD_VALUES: dict[str, list[Any]] = {
    "n": [0, -1, 9, 10**9, 10**40, True, "2", 1.0, [1]],
    "max_tokens": [0, -1, LIMITS.max_new_tokens + 1, 10**40, True, "5", 1.5, {}],
    "max_completion_tokens": [0, LIMITS.max_new_tokens + 1, False],
    "temperature": [-1, -0.1, 2.1, 1e308, float("nan"), float("inf"), "1", True, 10**400],
    "top_p": [0, 5e-324, 1e-300, 1e-7, 2, -1, float("nan"), "0.5", False],
    "top_k": [-5, -2, 1.5, 10**40, "1", True],
    "min_p": [-0.1, 1.1, True],
    "repetition_penalty": [0, 5e-324, 1e-300, 1e-39, 0.009, -1, 11, float("inf")],
    "frequency_penalty": [-2.1, 2.1, "1"],
    "presence_penalty": [-3, 3, []],
    "seed": [2**63, -(2**63) - 1, 1.5, "1", True],
    "logprobs": [10**6, -1, 1, "true"],
    "top_logprobs": [10**6, -1, 21, True, 1.5],
    "stop": ["", [""], ["a"] * 5, ["a"] * 10_000, "x" * 2**20, 5, ["a", None], [["a"]], {}],
    "logit_bias": [
        *([], "x", {"a": 1}, {"-1": 1}, {"007": 1}, {"1.5": 1}, {"٣": 1}, {"": 1}),
        *({"1": 101}, {"1": "1"}, {"1": None}, {str(i): 1 for i in range(301)}),
    ],
    "stream": [1, "true", "yes"],
    "ignore_eos": [1, 0, "false"],
    "min_tokens": [-1, 10**6, True],
    "stop_token_ids": [[-1], [1.5], ["1"], [True], list(range(1001)), 5],
    "allowed_token_ids": [[], [-1], [2**31]],
    "bad_words": [[""], "bad", ["a"] * 101],
    "priority": ["high", 1.5, 2**63],
    "cache_salt": [5, "x" * 1025],
    "request_id": [5, "x" * 10_240],
    "user": [5, {}],
    "metadata": [5, []],
    "stream_options": [5, {"x": 1}, {"include_usage": 1}, {"token_details": "yes"}, {"top_k": 21}, {"top_k": -1}],
    "tools": [{}, [{}], [{"type": "mcp"}], [TOOL] * 129, [{"type": "function", "function": {}}]],
    "tool_choice": ["any", 5, {}, {"type": "function"}],
    "response_format": ["json", {}, {"type": "structural_tag"}, {"type": "json_schema"}],
    "structured_outputs": [
        *({}, {"json": 5}, {"choice": []}, {"json": "{"}, {"choice": ["a"], "json": {}}, {"regex": ""}, {"regex": 5}),
        *({"grammar": ["root"]}, {"grammar": "a" * 300_000}, {"regex": "a", "grammar": "root ::= x"}),
        *({"structural_tag": "x"}, {"_backend": "x", "json": {}}, {"backend": "x", "json": {}}),
    ],
    "modalities": [["audio"], ["text", "audio"]],
    "repetition_detection": [{"x": 1}, {"min_count": -1}, 5],
    "reasoning_effort": ["very", 5],
    "chat_template_kwargs": [[], "x", 5, {"a": []}, {"a": {}}, {"a": "x" * 1025}, {str(i): 1 for i in range(17)}],
}


@pytest.mark.fault(13, 14, 15, 16, 17, 18, 61)
def test_a_value_out_of_range_or_of_another_type_is_refused() -> None:
    assert not refused_otherwise(({name: value}, f"{name}…", "") for name, value in each(BAD_VALUES))


@pytest.mark.fault(16, 22)
def test_a_field_that_is_not_supported_is_refused_whatever_its_value() -> None:
    names = ChatCompletionRequest.unsupported | {"guided_json", "guided_decoding_backend", "guided_whatever"}
    values = ["x", {}, True, False, 1]
    assert not refused_otherwise(({name: one}, name, "not supported here") for name in names for one in values)


@pytest.mark.fault(24)
def test_bookkeeping_never_reaches_the_engine() -> None:
    fields: dict[str, Any] = {
        "priority": 5,
        "cache_salt": "salt",
        "request_id": "a\nb",
        "session_id": "s",
        "user": "u",
        "metadata": {"a": "b"},
        "store": True,
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "modalities": ["text"],
    }
    for name, value in fields.items():
        assert read_chat(**{name: value}).body == read_chat().body, name


@pytest.mark.fault(12)
def test_an_unknown_vocabulary_field_is_an_error_that_lists_the_known_ones() -> None:
    names = ("vocab_words", "Vocab", "vocabulary", "vocab_nwords", "VOCAB_LANG", "vocab_lang ")
    known = "vocab, vocab_lang, vocab_n_words"
    assert not refused_otherwise(({name: 5, **VOCABULARY}, name, known) for name in names)


@pytest.mark.fault(12)
def test_ten_thousand_faults_get_one_short_answer() -> None:
    many: list[dict[str, Any]] = [
        {f"unknown_{index}": index for index in range(10_000)},
        {"x" * 100_000: 1},
        {"logit_bias": {f"bad {index}": index for index in range(10_000)}},
        {"vocab": {f"member_{index}": index for index in range(10_000)}},
        {"vocab": {"x" * 100_000: 1}},
        {"vocab": {"words": ["\x01" * 100] * 10_000}},
        {"vocab": {"words": ["x" * 100_000] * 10}},
        {"vocab": {"words": [["x"] * 100] * 10_000}},
        {"vocab": {"lang": "\x01" * 64, "words": [5] * 10_000}},
    ]
    assert not refused_otherwise((fields, "…", "") for fields in many)


@pytest.mark.fault(11)
@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{}] * 10**6},
        {"messages": [{"role": "user", "content": "a"}] * 10**6},
        {"stop": [5] * 10**6},
        {"tools": [{}] * 10**6},
        {"vocab": {"lang": "en", "words": [5] * 10**6}},
        {"logit_bias": {str(index): "x" for index in range(10**5)}},
        {"messages": [{"role": "user", "content": [{}] * 10**6}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_million_faults_are_refused_at_the_first(fields: dict[str, Any]) -> None:
    times = []
    for _ in range(5):
        start = time.process_time()
        refusal(**fields)
        times.append(time.process_time() - start)
    assert min(times) < 0.05


@pytest.mark.fault(23)
def test_an_unknown_model_is_not_found() -> None:
    for model in ("gpt-4o", "", "../../etc/passwd", "x" * 2**20, "a\nb", MODEL.upper()):
        error = refusal(model=model)
        assert isinstance(error, ModelNotFoundError)
        assert (error.status, error.code, error.param) == (404, "model_not_found", "model")
        assert len(error.message) < 200
        assert "\n" not in error.message


def test_a_request_that_names_no_model_is_for_the_one_that_is_served() -> None:
    without = {name: value for name, value in chat_body().items() if name != "model"}
    assert READER.read(without).body == READER.read({**without, "model": None}).body == read_chat().body
    assert refusal(model=5).param == "model"


@pytest.mark.fault(14)
def test_an_absent_budget_is_the_cap() -> None:
    assert read_chat().body["max_tokens"] == LIMITS.max_new_tokens
    assert read_chat(max_tokens=None, max_completion_tokens=None).body["max_tokens"] == LIMITS.max_new_tokens


@pytest.mark.parametrize("structure", [{"regex": "a+"}, {"grammar": 'root ::= "a"+'}])
def test_beside_a_grammar_a_budget_has_a_limit_of_its_own(structure: dict[str, str]) -> None:
    reader = ChatRequestReader(limited(max_new_tokens=4096, max_grammar_tokens=100))
    for asked in ({"max_tokens": 101}, {}):
        with pytest.raises(BadRequestError, match=r"at most 100 with .* \(limits.max_grammar_tokens\)") as caught:
            reader.read({**chat_body(), "max_tokens": None, **asked, "structured_outputs": structure})
        assert caught.value.param == "max_tokens"
    kept = reader.read({**chat_body(), "max_tokens": 100, "structured_outputs": structure})
    assert kept.body["max_tokens"] == 100
    others = {"response_format": {"type": "json_object"}, "max_tokens": 4096}
    assert reader.read({**chat_body(), **others}).body["max_tokens"] == 4096


def test_where_budgets_are_a_set_others_are_refused_and_the_largest_is_the_default() -> None:
    reader = ChatRequestReader(limited(allowed_new_tokens=(64, 16)))
    assert reader.read(chat_body()).body["max_tokens"] == 64
    for name in ("max_tokens", "max_completion_tokens"):
        assert reader.read({**chat_body(), name: 16}).body["max_tokens"] == 16
        with pytest.raises(BadRequestError, match=f"'{name}' must be one of 16, 64 here") as caught:
            reader.read({**chat_body(), name: 32})
        assert caught.value.param == name


def test_either_budget_becomes_max_tokens_and_two_that_differ_are_refused() -> None:
    for fields in ({"max_tokens": 7}, {"max_completion_tokens": 7}, {"max_tokens": 7, "max_completion_tokens": 7}):
        body = read_chat(**fields).body
        assert body["max_tokens"] == 7
        assert "max_completion_tokens" not in body


@pytest.mark.fault(14)
def test_a_budget_above_the_cap_is_refused_and_the_cap_named() -> None:
    assert str(LIMITS.max_new_tokens) in refusal(max_tokens=LIMITS.max_new_tokens + 1).message


@pytest.mark.fault(22)
def test_older_names_beside_structured_outputs_are_ignored() -> None:
    body = read_chat(structured_outputs={"regex": "a+"}, guided_regex="b+", guided_decoding_backend="guidance").body
    assert body["structured_outputs"] == {"regex": "a+"}
    assert not [name for name in body if name.startswith("guided_")]


def test_a_vocabulary_is_taken_out_of_the_body_and_the_field_that_names_its_list_remembered() -> None:
    request = read_chat(**VOCABULARY)
    assert (request.vocabulary, request.list_param) == (VocabularySpec(lang="en", n_words=1000), "vocab_lang")
    assert request.body == read_chat(**DEFAULT_SAMPLING).body
    assert read_chat(vocab={"lang": "en"}).list_param == "vocab.lang"
    assert read_chat(vocab={"words": ["a"], "lang": "en"}).list_param == "vocab.words"


def test_a_schema_beside_a_list_is_read_as_one_of_listed_words_or_named_by_its_pointer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    form: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "sheet", "schema": schema}}
    assert (found := listed_schema(read_chat(response_format=form, **VOCABULARY).body)) is not None
    assert found[0] == "response_format.json_schema.schema"
    assert found[1].kinds[1:] == (StringKind(),)
    assert listed_schema(read_chat(**VOCABULARY).body) is None
    assert listed_schema(read_chat(response_format={"type": "text"}, **VOCABULARY).body) is None
    dated = {**schema, "properties": {"a": {"type": "string", "format": "date"}}}
    form["json_schema"] = {"name": "x", "schema": dated}
    error = refusal(response_format=form, **VOCABULARY)
    assert (error.status, error.code, "#/properties/a/format" in error.message) == (400, "invalid_schema", True)


def test_an_answer_that_was_begun_can_be_continued_by_words_of_a_list() -> None:
    searches: list[dict[str, Any]] = [{}, {"num_beams": 2}, {"best_of": 2}, {"min_tokens": 5}]
    for search in searches:
        assert PREFILL.items() <= read_chat(**VOCABULARY, **PREFILL, **search).body.items()


def test_bad_words_are_left_out_of_the_list_and_never_reach_the_engine() -> None:
    searches: list[dict[str, Any]] = [{}, {"num_beams": 2}, {"best_of": 2}]
    for search in searches:
        vocab = {"lang": "en", "exclude_words": ["war"]}
        request = read_chat(vocab=vocab, bad_words=["dog ", "war", "E\u0301mile"], **search)
        assert request.vocabulary == VocabularySpec(lang="en", exclude_words=("war", "dog", "\u00c9mile"))
        assert "bad_words" not in request.body
    assert read_chat(**VOCABULARY, bad_words=[]).vocabulary == read_chat(**VOCABULARY).vocabulary


def test_a_bad_word_that_a_text_may_have_without_the_list_is_refused() -> None:
    split = {"lang": "zh", "segmentation": "any"}
    words: list[tuple[dict[str, Any], str, str]] = [
        ({"lang": "en"}, "New York", "a blank or a mark"),
        ({"lang": "en"}, "dog.", "a blank or a mark"),
        ({"lang": "en"}, "7", "no letter"),
        ({"lang": "en"}, "!", "no letter"),
        ({"lang": "en"}, "dog's", "name that"),
        ({"lang": "fr"}, "l'homme", "an apostrophe"),
        ({"lang": "en"}, "a\u200bb", "invisible"),
        ({"lang": "zh"}, "你好。", "a blank or a mark"),
        (split, "中国", "as several words"),
        ({"lang": "en", "extra_words": ["Zorro"]}, "zorro", "both extra_words and bad_words"),
    ]
    assert not refused_otherwise(
        ({"vocab": vocab, "bad_words": ["死", word]}, "bad_words…", part) for vocab, word, part in words
    )
    assert not not_taken({"bad_words": [word]} for _, word, _ in words)
    for vocab, word in ((split, "死"), ({"lang": "zh"}, "中国")):
        asked = read_chat(vocab=vocab, bad_words=[word]).vocabulary
        assert asked is not None
        assert asked.exclude_words == (word,)


def test_a_budget_too_small_for_a_sentence_names_the_least_and_the_way_out() -> None:
    resolved = ResolvedVocabulary(digest="1" * 64, lang="en", n_words=5, fewest_tokens=3)
    check_max_tokens(read_chat(vocab={"lang": "en"}, max_tokens=3), resolved)
    with pytest.raises(BadRequestError, match=r'at least 3: .* \{"vocab": \{"end": "word"\}\}'):
        check_max_tokens(read_chat(vocab={"lang": "en"}, max_tokens=2), resolved)
    with pytest.raises(BadRequestError, match=r"fits into fewer\.$"):
        check_max_tokens(read_chat(vocab={"lang": "en", "end": "word"}, max_tokens=2), resolved)


@pytest.mark.fault(73)
def test_more_logprobs_than_an_answer_may_have_are_refused() -> None:
    faults: list[tuple[str, dict[str, Any]]] = [
        ("top_logprobs", {"n": 8, "top_logprobs": 20, "max_tokens": 298}),
        ("top_logprobs", {"n": 8, "top_logprobs": 20}),
        ("logprob_token_ids", {"logprob_token_ids": list(range(1000)), "max_tokens": 50}),
    ]
    for param, fields in faults:
        error = refusal(logprobs=True, **fields)
        assert (error.status, error.param) == (400, param)
        for part in ("at most 50000 log-probabilities", "'n'", "'max_tokens'", f"'{param}'"):
            assert part in error.message
    assert not not_taken(
        [
            {"n": 8, "top_logprobs": 20, "max_tokens": 297, "logprobs": True},
            {"top_logprobs": 20, "logprobs": True},
            {"n": 8, "logprobs": True},
            {"n": 8, "logprobs": False},
        ]
    )


def test_a_reader_and_what_it_read_can_be_sent_to_another_process() -> None:
    chat = read_chat(vocab={"lang": "en", "search": {"width": 2}})
    assert pickle.loads(pickle.dumps(READER)).read(chat_body()) == read_chat()  # noqa: S301
    assert pickle.loads(pickle.dumps(chat)) == chat  # noqa: S301


def test_what_stays_inside_a_list_can_be_combined_with_a_vocabulary() -> None:
    names = "logit_bias min_tokens thinking_token_budget return_token_ids n stop seed logprobs response_format"
    for name in names.split():
        assert read_chat(**{name: dict(GOOD)[name]}, **VOCABULARY).body[name] == dict(GOOD)[name]
    assert read_chat(stop="end").body["stop"] == ["end"]
