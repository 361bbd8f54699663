"""Rows 12, 13 and 15 of the faults, for searches: what a request may say of how its text is chosen."""

from typing import Any

import pytest

from deployments.contract import Decoding
from deployments.errors import ApiError
from deployments.protocol.decoding import RESCUE_SHARE
from deployments.protocol.generation import ChatCompletionRequest, CompletionRequest, StreamOptions
from deployments.protocol.reader import ChatRequestReader
from deployments.protocol.rules import HARMLESS, NEEDS, RULES
from deployments.protocol.vocabulary import Vocabulary
from tests.deployments.front import LIMITS, MODEL, chat_body
from tests.deployments.protocol.test_reader import TOKEN_IDS, TOOL

READER = ChatRequestReader(MODEL, LIMITS)
LIST = {"lang": "es"}
CONSTRAINED = Decoding(hint=True)
"""Of a request with a vocabulary that says nothing of how its text is chosen."""
SENTENCES: dict[str, Any] = {"vocab": {**LIST, "search": {"width": 4}}}
RESCUED: dict[str, Any] = {"vocab": {**LIST, "rescue": True}}
SEARCHES: dict[str, dict[str, Any]] = {
    "num_beams": {"num_beams": 4},
    "best_of": {"best_of": 4},
    "vocab.search": SENTENCES,
    "vocab.rescue": RESCUED,
}


def decoding(**fields: Any) -> Decoding:
    return READER.read(chat_body(**fields)).decoding


def fault(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        READER.read(chat_body(**fields))
    assert caught.value.status == 400
    assert len(caught.value.to_json()) <= 4096
    return caught.value


def test_a_request_that_says_nothing_gets_one_plain_sample() -> None:
    assert decoding() == Decoding()
    assert decoding().is_plain
    assert decoding(vocab=LIST) == CONSTRAINED
    assert decoding(vocab=LIST).is_plain


SAMPLING = ("temperature", "top_p", "top_k", "min_p", "presence_penalty")
ALONE = {"temperature": 0.3, "min_p": 0.1, "presence_penalty": 1.0}


@pytest.mark.parametrize(
    ("fields", "sampling"),
    [
        ({}, {}),
        ({"best_of": 4}, {}),
        ({"vocab": LIST}, ALONE),
        ({"vocab_lang": "es", "vocab_n_words": 9}, ALONE),
        ({"vocab": LIST, "best_of": 1, "num_beams": 1}, ALONE),
        ({"vocab": LIST, "best_of": 4}, {"temperature": 0.5}),
        (SENTENCES, {"temperature": 0.5}),
        (RESCUED, {"temperature": 0.3, "min_p": 0.1}),
        ({"vocab": LIST, "num_beams": 4}, {}),
        ({"vocab": LIST, "temperature": None}, ALONE),
        *[({"vocab": LIST, name: 1}, {name: 1}) for name in SAMPLING[:4]],
        ({"vocab": LIST, "presence_penalty": 0}, ALONE | {"presence_penalty": 0}),
        ({"vocab": LIST, "presence_penalty": 0.5, "frequency_penalty": 0.1}, ALONE | {"presence_penalty": 0.5}),
        (RESCUED | {"presence_penalty": 0}, {"temperature": 0.3, "min_p": 0.1, "presence_penalty": 0}),
        ({"vocab": LIST, "temperature": 0}, {"temperature": 0}),
        ({"vocab": LIST, "best_of": 4, "top_p": 0.9}, {"top_p": 0.9}),
    ],
    ids=str,
)
def test_constrained_text_is_drawn_colder_unless_the_request_says_how(
    fields: dict[str, Any], sampling: dict[str, float]
) -> None:
    body = READER.read(chat_body(**fields)).body
    assert {name: body[name] for name in SAMPLING if name in body} == sampling


def test_the_replica_says_whether_runs_come_twice_unless_the_request_does() -> None:
    ways: list[dict[str, Any]] = [{}, {"num_beams": 4}, {"best_of": 4}, {"temperature": 0}]
    for fields in ways:
        assert READER.read(chat_body(vocab=LIST, **fields)).decoding.no_repeat_ngram_size is None
        assert READER.read(chat_body(**fields)).decoding.no_repeat_ngram_size is None
    assert READER.read(chat_body(vocab=LIST, no_repeat_ngram_size=0)).decoding.no_repeat_ngram_size == 0


def test_every_field_reaches_the_decoding_and_none_the_engine() -> None:
    fields: dict[str, Any] = {
        "num_beams": 4,
        "length_penalty": 0.8,
        "early_stopping": "never",
        "no_repeat_ngram_size": 3,
        "n": 2,
    }
    request = READER.read(chat_body(**fields))
    assert request.decoding == Decoding(num_beams=4, length_penalty=0.8, early_stopping="never", no_repeat_ngram_size=3)
    assert request.body == READER.read(chat_body(n=2)).body


def test_the_members_of_a_vocabulary_that_say_how_do_not_change_the_vocabulary() -> None:
    members = {"select": "posterior", "search": {"width": 16}, "hint": False, "score": True}
    request = READER.read(chat_body(vocab={**LIST, **members}))
    assert request.decoding == Decoding(search_width=16, select="posterior", score=True)
    assert request.vocabulary == READER.read(chat_body(vocab=LIST)).vocabulary


def test_texts_and_sentences_are_chosen_by_likelihood_unless_asked_otherwise() -> None:
    searches: list[dict[str, Any]] = [{"best_of": 4, "vocab": LIST}, SENTENCES]
    for fields in searches:
        assert decoding(**fields).select == "likelihood"
        vocab = {**fields["vocab"], "select": "posterior"}
        assert decoding(**{**fields, "vocab": vocab}).select == "posterior"


@pytest.mark.parametrize(
    ("asked", "share"), [(True, RESCUE_SHARE), (0.3, 0.3), (0.5, 0.5), (False, 0), (0, 0), (None, 0)]
)
def test_a_text_goes_back_below_the_share_that_is_asked_for(asked: Any, share: float) -> None:
    found = decoding(vocab={**LIST, "rescue": asked})
    assert found.rescue == share
    assert found.is_plain == (share == 0)


def test_the_shorthand_for_a_vocabulary_goes_with_every_top_level_field() -> None:
    flat = {"vocab_lang": "es", "vocab_n_words": 1000}
    assert decoding(best_of=4, no_repeat_ngram_size=2, **flat) == Decoding(best_of=4, no_repeat_ngram_size=2, hint=True)


@pytest.mark.parametrize("name", ["num_beams", "best_of", "length_penalty", "early_stopping", "no_repeat_ngram_size"])
def test_null_is_the_same_as_nothing(name: str) -> None:
    assert decoding(**{name: None}) == Decoding()


def test_a_null_member_is_the_same_as_nothing() -> None:
    assert decoding(vocab={**LIST, "select": None, "search": None, "hint": None, "score": None}) == CONSTRAINED


@pytest.mark.parametrize("fields", [{"num_beams": 1}, {"best_of": 1}, {"num_beams": 1, "best_of": 1, "temperature": 0}])
def test_a_width_of_one_is_no_search(fields: dict[str, Any]) -> None:
    assert decoding(**fields).is_plain


BAD_VALUES: dict[str, list[Any]] = {
    "num_beams": [0, 17, -1, 10**40, "x", "4", True, 4.0, [4], {}],
    "best_of": [0, 17, -1, 10**40, "x", True, 2.0, []],
    "length_penalty": [float("nan"), float("inf"), float("-inf"), 10.1, -10.1, 1e308, 10**400, "1", True, []],
    "early_stopping": ["always", "", 1, 0, [], {}, 1.0],
    "no_repeat_ngram_size": [-1, 65, 10**40, True, "3", 3.0],
}
BAD = [(name, value) for name, values in BAD_VALUES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{name}-{str(value)[:20]}" for name, value in BAD])
def test_a_value_out_of_range_or_of_another_type_is_named(name: str, value: Any) -> None:
    beams = {} if name in ("num_beams", "best_of") else {"num_beams": 4}
    error = fault(**beams, **{name: value})
    assert error.param == name
    assert "must be" in error.message


BAD_MEMBERS: list[tuple[str, Any, str]] = [
    ("select", "best", "vocab.select"),
    ("select", True, "vocab.select"),
    ("select", ["posterior"], "vocab.select"),
    ("search", 4, "vocab.search"),
    ("search", True, "vocab.search"),
    ("search", [], "vocab.search"),
    ("search", {}, "vocab.search.width"),
    ("search", {"width": None}, "vocab.search.width"),
    ("search", {"width": 0}, "vocab.search.width"),
    ("search", {"width": 1}, "vocab.search.width"),
    ("search", {"width": 17}, "vocab.search.width"),
    ("search", {"width": "4"}, "vocab.search.width"),
    ("search", {"width": True}, "vocab.search.width"),
    ("search", {"width": 4.0}, "vocab.search.width"),
    ("search", {"width": 4, "depth": 2}, "vocab.search.depth"),
    ("search", {"width": 4, "unit": None}, "vocab.search.unit"),
    ("rescue", "yes", "vocab.rescue"),
    ("rescue", 0.51, "vocab.rescue"),
    ("rescue", 1, "vocab.rescue"),
    ("rescue", -0.1, "vocab.rescue"),
    ("rescue", {"share": 0.1}, "vocab.rescue"),
    ("hint", "yes", "vocab.hint"),
    ("hint", 1, "vocab.hint"),
    ("score", "true", "vocab.score"),
    ("score", 0, "vocab.score"),
]


@pytest.mark.parametrize(("member", "value", "param"), BAD_MEMBERS, ids=lambda part: str(part)[:20])
def test_a_bad_member_is_named(member: str, value: Any, param: str) -> None:
    error = fault(vocab={**LIST, member: value})
    assert error.param == param
    assert "must be" in error.message or "Unknown member of 'vocab.search'" in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"num_beams": 4, "best_of": 4}, "best_of"),
        ({"num_beams": 4, **SENTENCES}, "vocab.search"),
        ({"best_of": 4, **SENTENCES}, "vocab.search"),
        ({"num_beams": 4, **RESCUED}, "vocab.rescue"),
        ({"best_of": 4, **RESCUED}, "vocab.rescue"),
        ({"vocab": {**SENTENCES["vocab"], "rescue": 0.1}}, "vocab.rescue"),
    ],
)
def test_searches_exclude_one_another(fields: dict[str, Any], param: str) -> None:
    error = fault(**fields)
    assert error.param == param
    assert "cannot be combined with" in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"length_penalty": 0.8}, "length_penalty"),
        ({"length_penalty": 0.8, "best_of": 4}, "length_penalty"),
        ({"early_stopping": True}, "early_stopping"),
        ({"early_stopping": "never", **SENTENCES}, "early_stopping"),
        ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size"),
        ({"no_repeat_ngram_size": 3, "best_of": 4}, "no_repeat_ngram_size"),
        ({"vocab": {**LIST, "select": "likelihood"}}, "vocab.select"),
        ({"vocab": {**LIST, "select": "posterior"}, "best_of": 1}, "vocab.select"),
        ({"vocab": {**LIST, "select": "posterior"}, "num_beams": 4}, "vocab.select"),
        ({"vocab": {"search": {"width": 4}}}, "vocab.lang"),
        ({"vocab": {"hint": True}}, "vocab.lang"),
        ({"vocab": {"score": True}}, "vocab.lang"),
    ],
)
def test_what_needs_another_field_is_refused_alone(fields: dict[str, Any], param: str) -> None:
    error = fault(**fields)
    assert error.param == param
    assert "need" in error.message


@pytest.mark.parametrize(
    "fields",
    [
        {"length_penalty": 1},
        {"length_penalty": 1.0, "early_stopping": False},
        {"no_repeat_ngram_size": 0},
        {"no_repeat_ngram_size": 3, "vocab": LIST},
        {"no_repeat_ngram_size": 64, "num_beams": 2},
    ],
)
def test_what_asks_for_nothing_or_has_what_it_needs_is_taken(fields: dict[str, Any]) -> None:
    assert decoding(**fields)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"num_beams": 2, "n": 3}, "'num_beams'"),
        ({"best_of": 2, "n": 3}, "'best_of'"),
        ({"best_of": 1, "n": 2}, "'best_of'"),
        ({**SENTENCES, "n": 2}, "'vocab.search'"),
    ],
)
def test_no_more_texts_are_returned_than_found(fields: dict[str, Any], part: str) -> None:
    error = fault(**fields)
    assert error.param == "n"
    assert part in error.message


@pytest.mark.parametrize("fields", [{"num_beams": 3, "n": 3}, {"best_of": 3, "n": 3}, {**SENTENCES, "n": 1}, {"n": 3}])
def test_as_many_texts_are_returned_as_found(fields: dict[str, Any]) -> None:
    assert decoding(**fields)


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-6])
@pytest.mark.parametrize("name", ["best_of", "vocab.search"])
def test_texts_to_choose_from_must_differ(name: str, temperature: float) -> None:
    error = fault(temperature=temperature, **SEARCHES[name])
    assert error.param == "temperature"
    assert f"with '{name}'" in error.message


HARMFUL: dict[str, Any] = {
    "allowed_token_ids": TOKEN_IDS,
    "bad_words": ["bad"],
    "frequency_penalty": 0.5,
    "ignore_eos": True,
    "logit_bias": {"17": 5},
    "logprob_token_ids": TOKEN_IDS,
    "logprobs": True,
    "min_p": 0.1,
    "min_tokens": 5,
    "presence_penalty": -0.5,
    "repetition_detection": {"min_count": 2},
    "repetition_penalty": 1.1,
    "response_format": {"type": "json_object"},
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
    "skip_special_tokens": False,
    "stop": ["end"],
    "stop_token_ids": TOKEN_IDS,
    "structured_outputs": {"choice": ["yes"]},
    "temperature": 0.7,
    "thinking_token_budget": 5,
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "tools": [TOOL],
    "top_k": 50,
    "top_p": 0.9,
}
NEEDED: dict[str, dict[str, Any]] = {"tool_choice": {"tools": [TOOL]}}
REFUSED = [(rule.beside, name) for rule in RULES if rule.beside in SEARCHES for name in rule.refused if name in HARMFUL]


@pytest.mark.parametrize(("search", "name"), REFUSED)
def test_what_a_search_would_have_to_ignore_is_refused(search: str, name: str) -> None:
    error = fault(**SEARCHES[search], **{name: HARMFUL[name]}, **NEEDED.get(name, {}))
    assert error.param in (name, *NEEDED.get(name, {}))
    assert "cannot be combined with" in error.message


@pytest.mark.parametrize(("search", "name"), REFUSED)
def test_what_asks_for_nothing_goes_with_a_search(search: str, name: str) -> None:
    for value in (None, *HARMLESS.get(name, ())):
        assert not decoding(**SEARCHES[search], **{name: value}).is_plain


@pytest.mark.parametrize("fields", [{"seed": 1}, {"stream": True}, {"user": "u"}, {"tools": [], "tool_choice": "none"}])
@pytest.mark.parametrize("search", SEARCHES)
def test_what_means_the_same_in_a_search_goes_with_it(search: str, fields: dict[str, Any]) -> None:
    assert not decoding(**SEARCHES[search], **fields).is_plain


@pytest.mark.parametrize("search", ["best_of", "vocab.search"])
def test_samples_are_drawn_as_the_request_says(search: str) -> None:
    fields: dict[str, Any] = {"temperature": 0.7, "top_p": 0.9, "top_k": 50, "min_p": 0.1, "logit_bias": {"17": 5.0}}
    assert fields.items() <= READER.read(chat_body(**SEARCHES[search], **fields)).body.items()


def test_the_names_of_both_tables_exist() -> None:
    names = {name for rule in RULES for name in (rule.beside, *rule.refused)} | {name for name, *_ in NEEDS}
    for name in {name for name in (names | HARMLESS.keys()) if " " not in name}:
        field, _, member = name.partition(".")
        members = {"vocab": Vocabulary.model_fields, "stream_options": StreamOptions.model_fields}
        fields = CompletionRequest.model_fields | ChatCompletionRequest.model_fields
        assert (member or field) in (members[field] if member else fields), name


def test_the_widest_search_is_a_limit() -> None:
    for name in ("num_beams", "best_of", "vocab.search"):
        for width in (16, 17):
            fields = {"vocab": {**LIST, "search": {"width": width}}} if name == "vocab.search" else {name: width}
            if width == 16:
                assert not READER.read(chat_body(**fields)).decoding.is_plain
                continue
            with pytest.raises(ApiError, match="to 16"):
                READER.read(chat_body(**fields))


def test_the_model_is_told_of_its_vocabulary_as_the_service_or_the_request_says() -> None:
    silent = ChatRequestReader(MODEL, LIMITS, hint=False)
    for vocab, by_default, by_a_silent_service in [
        (None, False, False),
        (LIST, True, False),
        ({**LIST, "hint": True}, True, True),
        ({**LIST, "hint": False}, False, False),
    ]:
        assert READER.read(chat_body(vocab=vocab)).decoding.hint is by_default
        assert silent.read(chat_body(vocab=vocab)).decoding.hint is by_a_silent_service


def test_an_unknown_member_near_one_of_these_is_suggested() -> None:
    assert "Did you mean 'score'?" in fault(vocab={**LIST, "scores": True}).message
    assert "Did you mean 'num_beams'?" in fault(num_beam=4).message
