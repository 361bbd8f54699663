"""Rows 12 to 16, 19 and 21 to 25 of the faults: what a chat request may say."""

import time
from typing import Any

import pytest

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.errors import ApiError, BadRequestError, ModelNotFoundError
from deployments.protocol.decoding import DEFAULT_SAMPLING
from deployments.protocol.generation import ChatCompletionRequest
from deployments.protocol.listed_json import listed_schema
from deployments.protocol.reader import ChatRequest, ChatRequestReader, check_max_tokens
from deployments.protocol.rules import HARMLESS, RULES
from deployments.protocol.rules import VOCABULARY as LISTED
from tests.deployments.front import LIMITS, MODEL, chat_body
from vocab.matching.structure.schema import StringKind

TOKEN_IDS = [1, 2, 3]
VOCABULARY = {"vocab_lang": "en", "vocab_n_words": 1000}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def read(**fields: Any) -> ChatRequest:
    return ChatRequestReader(MODEL, LIMITS).read(chat_body(**fields))


def fault(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(**fields)
    assert len(caught.value.to_json()) <= 4096
    return caught.value


@pytest.mark.parametrize("body", [None, [], 1, "chat", True, [{}]])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    with pytest.raises(BadRequestError):
        ChatRequestReader(MODEL, LIMITS).read(body)


GOOD: list[tuple[str, Any]] = [
    ("temperature", 0.0),
    ("temperature", 2.0),
    ("top_p", 1.0),
    ("top_p", 0.01),
    ("min_p", 0.0),
    ("top_k", -1),
    ("top_k", 0),
    ("top_k", 50),
    ("frequency_penalty", -2.0),
    ("presence_penalty", 2.0),
    ("repetition_penalty", 1.1),
    ("seed", -(2**63)),
    ("seed", 2**63 - 1),
    ("n", 8),
    ("stop", []),
    ("stop", ["a", "b", "c", "d"]),
    ("stream", True),
    ("logprobs", True),
    ("logit_bias", {"17": -100.0, "0": 100.0}),
    ("min_tokens", 5),
    ("stop_token_ids", TOKEN_IDS),
    ("allowed_token_ids", TOKEN_IDS),
    ("logprob_token_ids", TOKEN_IDS),
    ("bad_words", ["bad"]),
    ("ignore_eos", True),
    ("skip_special_tokens", False),
    ("spaces_between_special_tokens", False),
    ("include_stop_str_in_output", True),
    ("add_generation_prompt", False),
    ("continue_final_message", True),
    ("chat_template_kwargs", {"enable_thinking": False, "depth": 3, "style": "short"}),
    ("include_reasoning", False),
    ("reasoning_effort", "low"),
    ("thinking_token_budget", 10),
    ("parallel_tool_calls", False),
    ("return_token_ids", True),
    ("return_tokens_as_token_ids", True),
    ("repetition_detection", {"max_pattern_size": 8, "min_count": 3}),
    ("stream_interval", 4),
    ("response_format", {"type": "text"}),
    ("response_format", {"type": "json_object"}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}),
    ("structured_outputs", {"json": {"type": "object"}}),
    ("structured_outputs", {"choice": ["yes", "no"]}),
    ("structured_outputs", {"regex": "(yes|no)"}),
    ("structured_outputs", {"grammar": 'start: "yes"'}),
    ("structured_outputs", {"json_object": True}),
    ("tools", [TOOL]),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_a_field_that_the_engine_knows_is_passed_on(name: str, value: Any) -> None:
    assert read(**{name: value}).body[name] == value


@pytest.mark.parametrize(
    "name", sorted({*dict(GOOD), *ChatCompletionRequest.unsupported, *VOCABULARY})
)
def test_null_is_the_same_as_nothing(name: str) -> None:
    assert read(**{name: None}).body == read().body


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
        [],
        "x",
        {"a": 1},
        {"-1": 1},
        {"007": 1},
        {"1.5": 1},
        {"٣": 1},
        {"": 1},
        {"1": 101},
        {"1": "1"},
        {"1": None},
        {str(i): 1 for i in range(301)},
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
        {},
        {"json": 5},
        {"choice": []},
        {"json": "{"},
        {"choice": ["a"], "json": {}},
        {"regex": ""},
        {"regex": 5},
        {"grammar": ["root"]},
        {"grammar": "a" * 300_000},
        {"regex": "a", "grammar": "root ::= x"},
        {"structural_tag": "x"},
        {"_backend": "x", "json": {}},
        {"backend": "x", "json": {}},
    ],
    "modalities": [["audio"], ["text", "audio"]],
    "repetition_detection": [{"x": 1}, {"min_count": -1}, 5],
    "reasoning_effort": ["very", 5],
    "chat_template_kwargs": [[], "x", 5, {"a": []}, {"a": {}}, {"a": "x" * 1025}, {str(i): 1 for i in range(17)}],
}
BAD = [(name, value) for name, values in BAD_VALUES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{name}-{str(value)[:20]}" for name, value in BAD])
def test_a_value_out_of_range_or_of_another_type_is_refused(name: str, value: Any) -> None:
    error = fault(**{name: value})
    assert error.status == 400
    assert (error.param or "").startswith(name)


def test_structural_tags_of_the_client_are_not_supported() -> None:
    assert "not supported here" in fault(structured_outputs={"structural_tag": "canary"}).message


@pytest.mark.parametrize(
    "name", sorted(ChatCompletionRequest.unsupported | {"guided_json", "guided_decoding_backend", "guided_whatever"})
)
@pytest.mark.parametrize("value", ["x", {}, True, False, 1])
def test_a_field_that_is_not_supported_is_refused_whatever_its_value(name: str, value: Any) -> None:
    error = fault(**{name: value})
    assert (error.status, error.param) == (400, name)
    assert "not supported here" in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority", 5),
        ("cache_salt", "salt"),
        ("request_id", "a\nb"),
        ("session_id", "s"),
        ("user", "u"),
        ("metadata", {"a": "b"}),
        ("store", True),
        ("service_tier", "auto"),
        ("prompt_cache_key", "k"),
        ("safety_identifier", "s"),
        ("modalities", ["text"]),
    ],
)
def test_bookkeeping_never_reaches_the_engine(name: str, value: Any) -> None:
    assert read(**{name: value}).body == read().body


def test_an_unknown_field_is_refused_and_a_near_one_suggested() -> None:
    error = fault(temprature=1)
    assert error.param == "temprature"
    assert "Did you mean 'temperature'?" in error.message
    assert "Did you mean" not in fault(zzzzzz=1).message
    assert fault(zzzzzz=None).status == 400


@pytest.mark.parametrize("name", ["vocab_words", "Vocab", "vocabulary", "vocab_nwords", "VOCAB_LANG", "vocab_lang "])
def test_an_unknown_vocabulary_field_is_an_error_that_lists_the_known_ones(name: str) -> None:
    error = fault(**{name: 5}, **VOCABULARY)
    assert error.param == name
    assert "vocab, vocab_lang, vocab_n_words" in error.message


def test_ten_thousand_faults_get_one_short_answer() -> None:
    fault(**{f"unknown_{index}": index for index in range(10_000)})
    fault(**{"x" * 100_000: 1})
    fault(logit_bias={f"bad {index}": index for index in range(10_000)})


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
        fault(**fields)
        times.append(time.process_time() - start)
    assert min(times) < 0.05


@pytest.mark.parametrize("model", ["gpt-4o", "", "../../etc/passwd", "x" * 2**20, "a\nb", MODEL.upper()])
def test_an_unknown_model_is_not_found(model: str) -> None:
    error = fault(model=model)
    assert isinstance(error, ModelNotFoundError)
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")
    assert len(error.message) < 200
    assert "\n" not in error.message


def test_a_request_that_names_no_model_is_for_the_one_that_is_served() -> None:
    named = read().body
    without = {name: value for name, value in chat_body().items() if name != "model"}
    reader = ChatRequestReader(MODEL, LIMITS)
    assert reader.read(without).body == reader.read({**without, "model": None}).body == named
    assert fault(model=5).param == "model"


def test_an_absent_budget_is_the_cap() -> None:
    assert read().body["max_tokens"] == LIMITS.max_new_tokens
    assert read(max_tokens=None, max_completion_tokens=None).body["max_tokens"] == LIMITS.max_new_tokens


@pytest.mark.parametrize("structure", [{"regex": "a+"}, {"grammar": 'root ::= "a"+'}])
def test_beside_a_grammar_a_budget_has_a_limit_of_its_own(structure: dict[str, str]) -> None:
    reader = ChatRequestReader(MODEL, LIMITS.model_copy(update={"max_new_tokens": 4096, "max_grammar_tokens": 100}))
    for asked in ({"max_tokens": 101}, {}):
        with pytest.raises(BadRequestError, match=r"at most 100 with .* \(limits.max_grammar_tokens\)") as caught:
            reader.read({**chat_body(), "max_tokens": None, **asked, "structured_outputs": structure})
        assert caught.value.param == "max_tokens"
    kept = reader.read({**chat_body(), "max_tokens": 100, "structured_outputs": structure})
    assert kept.body["max_tokens"] == 100
    others = {"response_format": {"type": "json_object"}, "max_tokens": 4096}
    assert reader.read({**chat_body(), **others}).body["max_tokens"] == 4096


def test_where_budgets_are_a_set_others_are_refused_and_the_largest_is_the_default() -> None:
    reader = ChatRequestReader(MODEL, LIMITS.model_copy(update={"allowed_new_tokens": (64, 16)}))
    assert reader.read(chat_body()).body["max_tokens"] == 64
    for name in ("max_tokens", "max_completion_tokens"):
        assert reader.read({**chat_body(), name: 16}).body["max_tokens"] == 16
        with pytest.raises(BadRequestError, match=f"'{name}' must be one of 16, 64 here") as caught:
            reader.read({**chat_body(), name: 32})
        assert caught.value.param == name


def test_either_budget_becomes_max_tokens() -> None:
    for fields in ({"max_tokens": 7}, {"max_completion_tokens": 7}, {"max_tokens": 7, "max_completion_tokens": 7}):
        body = read(**fields).body
        assert body["max_tokens"] == 7
        assert "max_completion_tokens" not in body


def test_two_budgets_that_differ_are_refused() -> None:
    assert fault(max_tokens=7, max_completion_tokens=8).param == "max_completion_tokens"


def test_a_budget_above_the_cap_is_refused_and_the_cap_named() -> None:
    assert str(LIMITS.max_new_tokens) in fault(max_tokens=LIMITS.max_new_tokens + 1).message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
    ],
)
def test_a_field_that_needs_another_is_refused_alone(fields: dict[str, Any], param: str) -> None:
    assert fault(**fields).param == param


@pytest.mark.parametrize(
    ("options", "fields", "named"),
    [
        ({"top_k": 3}, {}, "needs 'stream_options.token_details'"),
        ({"token_details": True}, {"logprobs": True}, "combined with 'logprobs'"),
        ({"token_details": True}, {"logprob_token_ids": [1]}, "combined with 'logprob_token_ids'"),
        ({"token_details": True}, {"best_of": 2}, "combined with a search"),
        ({"token_details": True}, {"vocab": {"lang": "en", "n_words": 300, "score": True}}, "'vocab.score'"),
    ],
)
def test_token_details_are_not_combined_with_what_moves_them(
    options: dict[str, Any], fields: dict[str, Any], named: str
) -> None:
    error = fault(stream=True, stream_options=options, **fields)
    assert (error.param or "").startswith("stream_options.")
    assert named in error.message
    body = read(stream=True, stream_options={"token_details": True, "top_k": 0}, logprobs=False).body
    assert body["stream_options"] == {"token_details": True, "top_k": 0}


def test_older_names_beside_structured_outputs_are_ignored() -> None:
    body = read(structured_outputs={"regex": "a+"}, guided_regex="b+", guided_decoding_backend="guidance").body
    assert body["structured_outputs"] == {"regex": "a+"}
    assert not [name for name in body if name.startswith("guided_")]


def test_a_stop_string_becomes_a_list_of_one() -> None:
    assert read(stop="end").body["stop"] == ["end"]


def test_a_vocabulary_is_taken_out_of_the_body() -> None:
    request = read(**VOCABULARY)
    assert request.vocabulary == VocabularySpec(lang="en", n_words=1000)
    assert request.body == read(**DEFAULT_SAMPLING).body
    assert read().vocabulary is None


def test_the_field_that_names_the_list_is_remembered_for_later_errors() -> None:
    assert read(**VOCABULARY).list_param == "vocab_lang"
    assert read(vocab={"lang": "en"}).list_param == "vocab.lang"
    assert read(vocab={"words": ["a"], "lang": "en"}).list_param == "vocab.words"


@pytest.mark.parametrize(("given", "missing"), [("vocab_lang", "vocab_n_words"), ("vocab_n_words", "vocab_lang")])
def test_half_a_vocabulary_is_refused_and_the_other_half_named(given: str, missing: str) -> None:
    for fields in ({given: VOCABULARY[given]}, {given: VOCABULARY[given], missing: None}):
        error = fault(**fields)
        assert error.param == missing
        assert f"add '{missing}'" in error.message


@pytest.mark.parametrize("n_words", [0, -1, True, "1000", 1.5, 10**40, [], {}])
def test_a_number_of_words_is_a_positive_integer(n_words: Any) -> None:
    assert fault(vocab_lang="en", vocab_n_words=n_words).param == "vocab_n_words"


@pytest.mark.parametrize(
    "lang", ["", "a\0b", "en\n", "x" * 65, "x" * 10_240, 5, True, ["en"], {}, "\u202een", "e\u200bn"]
)
def test_the_name_of_a_list_is_a_short_printable_string(lang: Any) -> None:
    assert fault(vocab_lang=lang, vocab_n_words=10).param == "vocab_lang"


HARMFUL: dict[str, Any] = {
    "add_generation_prompt": False,
    "allowed_token_ids": TOKEN_IDS,
    "ignore_eos": True,
    "logprob_token_ids": TOKEN_IDS,
    "repetition_detection": {"min_count": 2},
    "response_format": {"type": "json_object"},
    "skip_special_tokens": False,
    "stop_token_ids": TOKEN_IDS,
    "structured_outputs": {"choice": ["yes"]},
}
NOT_LISTED = [name for rule in RULES if rule.beside == LISTED for name in rule.refused if name != "echo"]


@pytest.mark.parametrize("name", NOT_LISTED)
@pytest.mark.parametrize("vocabulary", [VOCABULARY, {"vocab": {"words": ["a"]}}])
def test_what_could_lead_out_of_a_list_cannot_be_combined_with_a_vocabulary(
    name: str, vocabulary: dict[str, Any]
) -> None:
    error = fault(**{name: HARMFUL[name]}, **vocabulary)
    assert (error.status, error.param) == (400, name)
    assert "cannot be combined with a vocabulary" in error.message


SHEET = {
    "type": "json_schema",
    "json_schema": {"name": "sheet", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
}


def test_a_schema_beside_a_list_is_read_as_one_of_listed_words() -> None:
    request = read(response_format=SHEET, **VOCABULARY)
    assert (found := listed_schema(request.body)) is not None
    assert found[0] == "response_format.json_schema.schema"
    assert found[1].kinds[1:] == (StringKind(),)
    assert listed_schema(read(**VOCABULARY).body) is None
    assert listed_schema(read(response_format={"type": "text"}, **VOCABULARY).body) is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": "a"}, "stop"),
        ({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size"),
        ({"vocab": {"lang": "en", "layout": "lines"}}, "vocab.layout"),
        ({"vocab": {"lang": "en", "max_sentences": 2}}, "vocab.max_sentences"),
    ],
)
def test_what_cannot_stand_beside_json_in_a_list_is_named(fields: dict[str, Any], param: str) -> None:
    error = fault(**{"response_format": SHEET, "vocab": {"lang": "en"}, **fields})
    assert (error.status, error.param) == (400, param)
    assert "cannot be combined with JSON in a word list" in error.message


def test_a_schema_that_no_list_can_write_is_named_by_its_pointer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}
    error = fault(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, **VOCABULARY)
    assert (error.status, error.code) == (400, "invalid_schema")
    assert "#/properties/a/format" in error.message


@pytest.mark.parametrize("name", NOT_LISTED)
def test_what_changes_nothing_can_be_combined_with_a_vocabulary(name: str) -> None:
    for value in (None, *HARMLESS.get(name, ())):
        assert read(**{name: value}, **VOCABULARY).vocabulary is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logit_bias", {"17": -100.0}),
        ("min_tokens", 5),
        ("thinking_token_budget", 5),
        ("return_token_ids", True),
        ("n", 4),
        ("stop", ["end"]),
        ("seed", 1),
        ("logprobs", True),
        ("response_format", {"type": "json_object"}),
    ],
)
def test_what_stays_inside_a_list_can_be_combined_with_a_vocabulary(name: str, value: Any) -> None:
    assert read(**{name: value}, **VOCABULARY).body[name] == value


PREFILL: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}
BEGUN = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Once upon a time"}]


@pytest.mark.parametrize("search", [{}, {"num_beams": 2}, {"best_of": 2}, {"min_tokens": 5}])
def test_an_answer_that_was_begun_can_be_continued_by_words_of_a_list(search: dict[str, Any]) -> None:
    assert PREFILL.items() <= read(**VOCABULARY, **PREFILL, messages=BEGUN, **search).body.items()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({**PREFILL, "messages": BEGUN[:1]}, "messages"),
        ({**PREFILL, "messages": [*BEGUN[:1], {"role": "assistant", "content": ""}]}, "messages"),
        ({**PREFILL, "messages": BEGUN, "add_generation_prompt": None}, "add_generation_prompt"),
        ({**PREFILL, "messages": BEGUN, "add_generation_prompt": True}, "add_generation_prompt"),
        ({**PREFILL, "messages": BEGUN, "continue_final_message": False}, "add_generation_prompt"),
        ({**PREFILL, "messages": BEGUN, "continue_final_message": "yes"}, "continue_final_message"),
    ],
)
def test_there_must_be_a_beginning_to_continue(fields: dict[str, Any], param: str) -> None:
    error = fault(**VOCABULARY, **fields)
    assert (error.status, error.param) == (400, param)


@pytest.mark.parametrize("search", [{}, {"num_beams": 2}, {"best_of": 2}])
def test_bad_words_are_left_out_of_the_list_and_never_reach_the_engine(search: dict[str, Any]) -> None:
    vocab = {"lang": "en", "exclude_words": ["war"]}
    request = read(vocab=vocab, bad_words=["dog ", "war", "E\u0301mile"], **search)
    assert request.vocabulary == VocabularySpec(lang="en", exclude_words=("war", "dog", "\u00c9mile"))
    assert "bad_words" not in request.body
    assert read(**VOCABULARY, bad_words=[]).vocabulary == read(**VOCABULARY).vocabulary


@pytest.mark.parametrize(
    ("lang", "word", "part"),
    [
        ("en", "New York", "a blank or a mark"),
        ("en", "dog.", "a blank or a mark"),
        ("en", "7", "no letter"),
        ("en", "!", "no letter"),
        ("en", "dog's", "name that"),
        ("fr", "l'homme", "an apostrophe"),
        ("en", "a\u200bb", "invisible"),
        ("zh", "你好。", "a blank or a mark"),
    ],
)
def test_a_bad_word_that_a_text_may_have_without_the_list_is_refused(lang: str, word: str, part: str) -> None:
    error = fault(vocab={"lang": lang}, bad_words=["dog", word])
    assert (error.status, (error.param or "")[:9]) == (400, "bad_words")
    assert part in error.message
    assert read(bad_words=[word]).body["bad_words"] == [word]


def test_a_bad_word_that_listed_words_may_write_is_refused() -> None:
    vocab = {"lang": "zh", "segmentation": "any"}
    assert "as several words" in fault(vocab=vocab, bad_words=["中国"]).message
    for asked, word in ((vocab, "死"), ({"lang": "zh"}, "中国")):
        read_as = read(vocab=asked, bad_words=[word]).vocabulary
        assert read_as is not None
        assert read_as.exclude_words == (word,)


def test_a_word_that_is_bad_and_added_is_refused() -> None:
    error = fault(vocab={"lang": "en", "extra_words": ["Zorro"]}, bad_words=["zorro"])
    assert error.param == "bad_words"
    assert "both extra_words and bad_words" in error.message


def test_a_budget_too_small_for_a_sentence_names_the_least_and_the_way_out() -> None:
    resolved = ResolvedVocabulary(digest="1" * 64, lang="en", n_words=5, fewest_tokens=3)
    check_max_tokens(read(vocab={"lang": "en"}, max_tokens=3), resolved)
    with pytest.raises(BadRequestError, match=r'at least 3: .* \{"vocab": \{"end": "word"\}\}'):
        check_max_tokens(read(vocab={"lang": "en"}, max_tokens=2), resolved)
    with pytest.raises(BadRequestError, match=r"fits into fewer\.$"):
        check_max_tokens(read(vocab={"lang": "en", "end": "word"}, max_tokens=2), resolved)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 8, "top_logprobs": 20, "max_tokens": 298}, "top_logprobs"),
        ({"n": 8, "top_logprobs": 20}, "top_logprobs"),
        ({"logprob_token_ids": list(range(1000)), "max_tokens": 50}, "logprob_token_ids"),
    ],
)
def test_more_logprobs_than_an_answer_may_have_are_refused(fields: dict[str, Any], param: str) -> None:
    error = fault(logprobs=True, **fields)
    assert (error.status, error.param) == (400, param)
    assert "at most 50000 log-probabilities" in error.message
    for name in ("'n'", "'max_tokens'", f"'{param}'"):
        assert name in error.message


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 8, "top_logprobs": 20, "max_tokens": 297, "logprobs": True},
        {"top_logprobs": 20, "logprobs": True},
        {"n": 8, "logprobs": True},
        {"n": 8, "logprobs": False},
    ],
)
def test_as_many_logprobs_as_the_limit_says_may_be_asked_for(fields: dict[str, Any]) -> None:
    assert read(**fields).body["n" if "n" in fields else "top_logprobs"]
