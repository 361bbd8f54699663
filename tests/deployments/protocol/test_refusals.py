"""What each reader refuses: one table of bodies, of the field that is named, and of what is said about it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from deployments.protocol.batches import read_batch, read_expiry
from deployments.protocol.documents import read_document, read_worksheet
from deployments.protocol.generate import read_generate
from deployments.protocol.reader import ChatRequestReader, ServedModel
from deployments.protocol.tokens import read_detokenize, read_logprobs, read_token_logprobs, read_tokenize
from deployments.protocol.word_tools import NextWordsRequest, read_check, read_tool
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_MESSAGES, MAX_ROWS, Limits
from tests.deployments.front import LIMITS, MODEL, chat_body
from tests.deployments.protocol.readers import (
    BEGUN,
    CANARY,
    COMPLETIONS,
    PREFILL,
    READER,
    Fault,
    members,
    not_taken,
    refusal,
    refused_otherwise,
    says,
    values,
    vocabularies,
)

SERVED = ServedModel(MODEL, Limits(max_new_tokens=4), ("a", "b"))
DAY = 86400

READERS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "chats": (READER.read, {"messages": [{"role": "user", "content": "Hello"}]}),
    "completions": (COMPLETIONS.read, {"prompt": "Once"}),
    "generate": (partial(read_generate, chats=READER), {"prompt": "Once"}),
    "tokenize": (partial(read_tokenize, served=SERVED), {"prompt": "a"}),
    "detokenize": (partial(read_detokenize, served=SERVED), {"tokens": [1]}),
    "logprobs": (partial(read_logprobs, served=SERVED), {"prompt": "a"}),
    "token logprobs": (partial(read_token_logprobs, served=SERVED), {"prompt": "a", "token_ids": [1]}),
    "word tools": (partial(read_tool, NextWordsRequest, served=SERVED), {"text": "a", "vocab": {"lang": "en"}}),
    "check": (partial(read_check, limits=LIMITS), {"text": "a", "vocab": {"lang": "en"}}),
    "batches": (
        partial(read_batch, max_window_s=30 * DAY),
        {"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"},
    ),
    "documents": (read_document, {"text": "a"}),
    "worksheets": (read_worksheet, {"format": "txt", "exercises": []}),
}
"""Each reader with a body that it takes, but for worksheets."""


def reading(name: str) -> Callable[..., Any]:
    """Read a good body with other fields; ``...`` for one that is missing."""
    read, good = READERS[name]
    return lambda **fields: read({key: value for key, value in {**good, **fields}.items() if value is not ...})


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


ASKED = [user("a")] * 3

SENTENCES: list[Fault] = [
    # One for each kind of field.
    *says("'stream' must be true or false.", stream=CANARY),
    *says("'n' must be an integer from 1 to 8.", n=CANARY),
    *says("'temperature' must be a number from 0 to 2.", temperature=CANARY),
    *says("'top_p' must be a number from 1e-06 to 1.", top_p=0),
    *says("'repetition_penalty' must be a number from 0.01 to 10.", repetition_penalty=1e-300),
    *says("'user' must be a string of at most 1024 characters.", user=5),
    *says("'vocab.case' must be one of 'auto', 'sentence', 'any', 'listed'.", vocab={"lang": "en", "case": CANARY}),
    *says("'modalities[0]' must be 'text'.", modalities=[CANARY]),
    *says("'early_stopping' must be true or false or 'never'.", early_stopping=CANARY),
    *says("'bad_words' must be a list of at most 100 items.", bad_words=CANARY),
    *says("'tools[0].function' is missing: it must be an object.", tools=[{"type": "function"}]),
    *says("'messages[3].content' must be a string or a list of at", messages=[*ASKED, user(5)]),
    *says("'messages[0].role' must be one of 'system', 'developer', 'user', 'as", messages=[{"role": CANARY}]),
    *says("'vocab.words[2]' must be a string of at least 1 and at most 100 char", vocab={"words": ["a", "b", 5]}),
    *says("'vocab.lang' must be the name of a word list, a string of at least 1", vocab={"lang": "\n"}),
    *says("'logit_bias' must be an object of at most 300 members, of a string like ^(0|", logit_bias={CANARY: 1}),
    # Unknown names.
    ({"vocab": {"search": {CANARY: 4}}}, f"vocab.search.{CANARY}", f"of 'vocab.search': '{CANARY}'. Known"),
    *values("'include_usages'. Did you mean", ".include_usages", stream_options=[{"include_usages": 1}]),
    *values("Did you mean 'temperature'?", temprature=[1]),
    *values("Unknown parameter: 'zzzzzz'.", zzzzzz=[None]),
    # Fields that do not go together.
    *values("not supported here", structured_outputs=[{"structural_tag": CANARY}]),
    ({"max_tokens": 7, "max_completion_tokens": 8}, "max_completion_tokens", "differ"),
    ({"min_tokens": 9, "max_tokens": 8}, "min_tokens", "larger than 'max_tokens'"),
]


MESSAGES: list[Fault] = [
    *values(messages=[None, {}, "hello", 5, [], [user("a")] * (MAX_MESSAGES + 1)]),
    *values(inside="[0]…", messages=[[None], ["hello"], [[]], [{}]]),
    *(
        ({"messages": [user(content)]}, "messages[0].content…", "")
        for content in (
            *(None, 5, True, {"type": "text", "text": "a"}, [5]),
            # Text parts that are broken.
            *([value] for value in ({"type": "text"}, {"type": "text", "text": None}, {"text": "a"}, "a", None)),
        )
    ),
    *(
        ({"messages": [{"role": role, "content": "a"}]}, "messages[0].role", "")
        for role in (None, "", "User", "function", "critic", 5, ["user"])
    ),
    ({"messages": [user("a", documents=["x"])]}, "messages[0].documents", "Known are content, name, role"),
]


CALL = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}

CALLS: list[Fault] = [
    ({"messages": [user("Look."), {"role": "assistant", "tool_calls": [call]}]}, "messages[1].tool_calls[0]…", "")
    for call in (
        *(None, {}, {**CALL, "type": "mcp"}, {**CALL, "id": None}, {**CALL, "function": {"name": "look"}}),
        *({**CALL, "function": {"name": "look", "arguments": one}} for one in ({"a": 1}, "{", "[]", "[" * 100_000)),
    )
]

# An answer in a list is continued after its beginning alone.
CONTINUED: list[Fault] = [
    ({**PREFILL, "vocab": {"lang": "es"}, **changes}, param, part)
    for changes, param, part in (
        ({"messages": BEGUN[:1]}, "messages", "a last message of the role 'assistant'"),
        ({"messages": [*ASKED, {"role": "assistant", "content": ""}]}, "messages", "a last message of the role"),
        ({"add_generation_prompt": None}, "add_generation_prompt", "must be false with 'continue_final_message'"),
        ({"add_generation_prompt": True}, "add_generation_prompt", "must be false with 'continue_final_message'"),
        ({"continue_final_message": False}, "add_generation_prompt", "a vocabulary"),
        ({"continue_final_message": "yes"}, "continue_final_message", "true or false"),
    )
]

LIST = {"lang": "es"}
SENTENCE_SEARCH: dict[str, Any] = {"vocab": {**LIST, "search": {"width": 4}}}

DECODING: list[Fault] = [
    *values(
        "must be",
        num_beams=[0, 17, -1, 10**40, "x", "4", True, 4.0, [4], {}],
        best_of=[0, 17, -1, 10**40, "x", True, 2.0, []],
        length_penalty=[float("nan"), float("inf"), float("-inf"), 10.1, -10.1, 1e308, 10**400, "1", True, []],
        early_stopping=["always", "", 1, 0, [], {}, 1.0],
        no_repeat_ngram_size=[-1, 65, 10**40, True, "3", 3.0],
    ),
    *members(
        select=["best", True, ["posterior"]],
        search=[4, True, []],
        rescue=["yes", 0.51, 1, -0.1, {"share": 0.1}],
        hint=["yes", 1],
        score=["true", 0],
    ),
    *vocabularies(
        *(
            ({"search": search}, "search.width", "must be")
            for search in ({}, *({"width": width} for width in (None, 0, 1, 17, "4", True, 4.0)))
        ),
        ({"search": {"width": 17}}, "search.width", "to 16"),
        ({"search": {"width": 4, "depth": None}}, "search.depth", "Unknown member of 'vocab.search'"),
        ({"scores": True}, "scores", "Did you mean 'score'?"),
        **LIST,
    ),
    *vocabularies(*((one, "lang", "needs 'lang'") for one in ({"search": {"width": 4}}, {"hint": True}))),
    ({"num_beams": 17}, "num_beams", "to 16"),
    ({"num_beam": 4}, "num_beam", "Did you mean 'num_beams'?"),
    # No more texts are returned than found, and those to choose from have to differ.
    ({"num_beams": 2, "n": 3}, "n", "'num_beams'"),
    ({"best_of": 2, "n": 3}, "n", "'best_of'"),
    ({"best_of": 1, "n": 2}, "n", "'best_of'"),
    ({**SENTENCE_SEARCH, "n": 2}, "n", "'vocab.search'"),
    *(({"best_of": 4, "temperature": number}, "temperature", "with 'best_of'") for number in (0, 0.0, 1e-6)),
    *(({**SENTENCE_SEARCH, "temperature": number}, "temperature", "with 'vocab.search'") for number in (0, 1e-6)),
]

FLAT = {"vocab_lang": "es", "vocab_n_words": 5}
NO_NUMBERS: list[Any] = [0, -1, True, "1000", 1.5, 10**40, [], {}]
NO_NAMES: list[Any] = ["", "a\0b", "en\n", "x" * 65, "x" * 10_240, 5, True, ["en"], {}, "\u202een", "e\u200bn"]

VOCABULARY: list[Fault] = [
    *members(
        lang=["", "a\0b", "x" * 65, 5],
        n_words=[0, True, 1.0, 10**40],
        unit=["word", True],
        words=[[], "sol", {"sol": 1}, ["a"] * (LIMITS.max_list_words + 1)],
        extra_words=[["a"] * (MAX_CHANGED_WORDS + 1)],
        exclude_words=["no"],
        case=["upper", ["any"]],
        numbers=[1, "yes"],
        punctuation=["some", False],
        layout=["verse"],
        end=["line"],
        segmentation=["shortest"],
        possessive=["no"],
        safe=["no"],
    ),
    *(({**FLAT, "vocab_n_words": number}, "vocab_n_words", "must be") for number in NO_NUMBERS),
    *(({**FLAT, "vocab_lang": name}, "vocab_lang", "must be") for name in NO_NAMES),
    *values("must be", vocab=["es", ["es"], 5, True]),
    *vocabularies(
        ({"nwords": None}, "nwords", "'nwords'. Did you mean 'n_words'?"),
        ({"Lang": None}, "Lang", "Did you mean 'lang'?"),
        ({"word": None}, "word", "Did you mean 'words'?"),
        ({"zzz": None}, "zzz", "'zzz'. Known are lang, n_words, level, unit, safe, words"),
        **LIST,
    ),
    # It needs a list, and both of the flat fields or neither.
    *vocabularies(
        *(
            (vocab, "lang", part)
            for vocab in ({}, {"n_words": 10}, {"extra_words": ["Ana"]}, {"lang": None})
            for part in ("'lang'", "'words'")
        )
    ),
    *(
        (half, missing, f"add '{missing}'")
        for given, missing in (("vocab_lang", "vocab_n_words"), ("vocab_n_words", "vocab_lang"))
        for half in ({given: FLAT[given]}, {given: FLAT[given], missing: None})
    ),
    *(({"vocab": LIST, name: value}, name, "not both") for name, value in FLAT.items()),
    ({"vocab": LIST, **FLAT}, "vocab_lang", "not both"),
    # Members that contradict one another.
    *vocabularies(
        ({"words": ["a"], "unit": "lemma"}, "unit", "only where 'lang' says of which language they are"),
        ({"lang": "es", "source": "wordfreq"}, "source", "must be left out: the raw list that it could name is gone"),
        ({"words": ["a"], "safe": False}, "safe", "leave 'safe' out"),
        ({"words": ["a"], "lang": "../../etc/passwd"}, "lang", "language tag"),
        ({"words": ["a"], "lang": "km"}, "lang", "without spaces"),
        ({"lang": "es", "segmentation": "any"}, "segmentation", "this list is of 'es'"),
        ({"words": ["中"], "segmentation": "longest"}, "segmentation", "this list is of no language"),
        ({"level": "A2", "lang": "en", "segmentation": "any"}, "segmentation", "this list is of 'en'"),
        ({"lang": "es", "possessive": True}, "possessive", "of English only"),
        ({"words": ["cat"], "possessive": True}, "possessive", "name the language of 'words' by 'lang'"),
        ({"words": ["中", "中 国"], "lang": "zh"}, "words[1]", "'中 国' has a blank"),
        ({"lang": "ja", "extra_words": ["「あ」"]}, "extra_words[0]", "has the mark '「'"),
        ({"lang": "zh", "must_use": [{"word": "你好！"}]}, "must_use[0].word", "has the mark '！'"),
        ({"lang": "es", "end": "sentence", "punctuation": "none"}, "end", "set punctuation"),
        ({"lang": "es", "extra_words": ["Ana"], "exclude_words": ["ana"]}, "extra_words", "one of them"),
        ({"words": ["b"], "prompt_words": True}, "prompt_words", "name it by 'lang'"),
        ({"lang": "es", "prompt_words": "a map"}, "prompt_words", "must be true or false here"),
        ({"lang": "es", "prompt_words": 1}, "prompt_words", "must be true or false or a string"),
        ({"words": ["b"], "extra_words": ["l’a"], "exclude_words": ["L'A"]}, "extra_words", "one of them"),
    ),
]

AUTHOR = vocabularies(
    *(
        ({"new_words": new}, f"new_words{member}", member.removeprefix("."))
        for new, member in (
            ({"n_words": 1000}, ".n_words"),
            ({"per_100": 2}, ".n_words"),
            ({"n_words": 3000, "per_100": 0}, ".per_100"),
            ({"n_words": 3000, "per_100": 101}, ".per_100"),
            ({"n_words": 3000, "max": 0}, ".max"),
            ({"n_words": 3000, "many": 0}, ".many"),
            (3000, ""),
        )
    ),
    *(
        ({"must_use": words}, f"must_use{member}", "must_use")
        for words, member in (
            ("dog", ""),
            (["dog"], "[0]"),
            ([{"word": "dog", "count": 0}], "[0].count"),
            ([{"word": ""}], "[0].word"),
            ([{"word": "a"}, {"word": "b\nc"}], "[1].word"),
            ([{"word": "dog"}, {"word": "dog"}], "[1].word"),
            ([{"word": "a", "count": 40}, {"word": "b", "count": 40}], ""),
            ([{"word": f"w{i}"} for i in range(33)], ""),
        )
    ),
    ({"n_words": None, "new_words": {"n_words": 3000}}, "new_words.n_words", "larger than 'vocab.n_words'"),
    ({"must_use": [{"word": "dog"}], "exclude_words": ["Dog"]}, "must_use", "'vocab.must_use'"),
    ({"max_sentence_words": 1}, "max_sentence_words", "from 2 to 1000"),
    ({"max_sentences": 0}, "max_sentences", "from 1 to 1000"),
    ({"min_sentences": 4, "max_sentences": 3}, "min_sentences", "larger than 'vocab.max_sentences'"),
    ({"max_sentences": 4, "end": "word"}, "max_sentences", "counts sentences"),
    ({"min_sentences": 4, "punctuation": "none"}, "min_sentences", "counts sentences"),
    lang="en",
    n_words=1000,
)

VOCAB = {"lang": "en", "n_words": 1000}

COMPLETION: list[Fault] = [
    *values(prompt=["", [], [""], [[]], [5, "a"], ["a", 5], [[5], "a"], 5, {}, [-1], [2**31], [True]]),
    *values("Unknown parameter: ", messages=[1], tools=[1], top_logprobs=[1], store=[1], colour=[1]),
    *values("Unknown parameter: ", max_completion_tokens=[1]),
    *values(logprobs=[21, True], max_tokens=[0], min_tokens=[17], stream_options=[{}]),
    *values(prompt=[["a"] * (LIMITS.max_n + 1)]),
    ({"logprobs": 0, "best_of": 2}, "logprobs", ""),
    ({"logprobs": 0, "num_beams": 2}, "logprobs", ""),
    ({"logprobs": 0, "vocab": {**VOCAB, "search": {"width": 2}}}, "logprobs", ""),
    ({"vocab": {**VOCAB, "hint": True}}, "vocab.hint", ""),
    ({"vocab": {**VOCAB, "prompt_words": True}}, "vocab.prompt_words", "a completion has none"),
    ({"prompt": ["a"] * 3, "n": LIMITS.max_n // 2}, "prompt", ""),
    ({"prompt": ["a", "b"], "best_of": 2}, "prompt", ""),
    ({"prompt": ["a ", "b "], "vocab": {**VOCAB, "score": True}}, "prompt", ""),
    ({"n": 3, "best_of": 2}, "n", ""),
]

GENERATE: list[Fault] = [
    *values("'prompt'", prompt=[None, "", "  ", ["a", "b"]]),
    *values("'max_new_tokens'", max_new_tokens=[0, LIMITS.max_new_tokens + 1]),
    *values(temperature=[3], top_k=[-2], stream=["yes"], messages=[[]], max_tokens=[5], do_sample=[True]),
    ({"vocab": {"lang": "en", "words": []}}, "vocab.words", ""),
    ({"vocab_lang": "en"}, "vocab_n_words", ""),
]

TOKENIZE: list[Fault] = [
    ({"prompt": ...}, "prompt", ""),
    ({"messages": ASKED}, "prompt", ""),
    ({"prompt": ["a"]}, "prompt", ""),
    ({"tools": []}, "tools", ""),
    ({"add_generation_prompt": True}, "add_generation_prompt", ""),
    ({"prompt": None, "messages": ASKED, "continue_final_message": True}, "add_generation_prompt", ""),
    ({"prompt": None, "messages": []}, "messages", ""),
    ({"prompt": None, "messages": ASKED, "chat_template": "{{ x }}"}, "chat_template", ""),
    ({"colour": "red"}, "colour", ""),
]

DETOKENIZE: list[Fault] = [
    *values(tokens=[..., "a"], prompt=["a"]),
    *values(inside="[0]", tokens=[[2**31], [True]]),
    ({"tokens": [1, -1]}, "tokens[1]", ""),
]

LOGPROBS: list[Fault] = [
    *values(
        "'prompt'",
        prompt=[None, "", [], 3, [[]], ["a", ""], [1, "a"], [[1], "a"], [True], [[1, False]], [-1], [2**31], [1.5]],
    ),
    *values("at most 1024 prompts", prompt=[["a"] * (MAX_ROWS + 1), [[1]] * (MAX_ROWS + 1)]),
    *values(dtype=["bfloat16"], top_logprobs=[0, True, "5"], vocab=[{}], temperature=[1], token_ids=[[1]]),
]

TOKEN_LOGPROBS: list[Fault] = [
    # Of this service, which has its own bounds.
    *values("at most 4 items", token_ids=[[1] * 5]),
    ({"token_ids": [1, True]}, "token_ids[1]", ""),
    *values(token_ids=[None, []], prompt=[[], "", ["a"], [[1]]], top_logprobs=[1], vocab=[None]),
]

BATCHES: list[Fault] = [
    *values(
        input_file_id=[..., None, 5, "x" * 101],
        endpoint=[..., "/v1/embeddings"],
        completion_window=[..., 24, "24", "0h", "-1h", "1.5h", "24H", "٢h", "31d", "24h\n"],
        metadata=[[], {"a": 1}, {"a": None}, {"k" * 65: ""}, {"a": "v" * 513}, {str(i): "" for i in range(17)}],
        output_expires_after=[3600],
        model=["x"],
    ),
    *(
        ({"output_expires_after": expiry}, f"output_expires_after.{member}", "")
        for expiry, member in (
            ({"seconds": 3600}, "anchor"),
            ({"anchor": "created_at"}, "seconds"),
            ({"anchor": "now", "seconds": 3600}, "anchor"),
            ({"anchor": "created_at", "seconds": 3599}, "seconds"),
        )
    ),
    ({"completion_windows": "24h"}, "completion_windows", "Did you mean 'completion_window'"),
]


def order(**changes: Any) -> dict[str, Any]:
    return {"exercises": [{"kind": "order", "items": [{"sentence": "a"}, {"sentence": "b"}], **changes}]}


WORKSHEETS: list[Fault] = [
    *((order(shown=shown), "exercises[0].shown[0]", "must be an integer") for shown in (["x"], [1.5], [None])),
    (
        order(items=[{"sentence": "a", "source": {"start": "x", "end": 1}}]),
        "exercises[0].items[0].source.start",
        "must be an integer of at least 0",
    ),
]

TABLE: list[tuple[str, list[Fault]]] = [
    *(("chats", faults) for faults in (SENTENCES, MESSAGES, CALLS, CONTINUED, DECODING, VOCABULARY, AUTHOR)),
    ("completions", COMPLETION),
    ("generate", GENERATE),
    ("tokenize", TOKENIZE),
    ("detokenize", DETOKENIZE),
    ("logprobs", LOGPROBS),
    ("token logprobs", TOKEN_LOGPROBS),
    ("batches", BATCHES),
    ("worksheets", WORKSHEETS),
]


def test_each_fault_is_refused_by_its_field_in_a_sentence_about_it() -> None:
    assert not [(name, others) for name, faults in TABLE if (others := refused_otherwise(faults, reading(name)))]


@pytest.mark.fault(12)
@pytest.mark.parametrize("name", READERS)
def test_a_body_is_an_object(name: str) -> None:
    read, good = READERS[name]
    bodies: list[Any] = [None, [], 1, "chat", True, [{}]]
    assert not refused_otherwise((({"body": body}, "", "JSON object") for body in bodies), lambda body: read(body))
    assert name == "worksheets" or read(good)


def test_the_model_is_one_that_there_is() -> None:
    with_models = [name for name in READERS if name not in ("check", "batches", "documents", "worksheets")]
    for name in with_models:
        assert not refused_otherwise([({"model": "other"}, "model", "does not exist")], reading(name), status=404), name
        assert reading(name)(model=MODEL)


def test_a_row_of_generate_names_no_field_of_a_chat() -> None:
    messages = [refusal(reading("generate"), **fields).message for fields, _, _ in GENERATE]
    assert not [message for message in messages if "message" in message.replace("'messages'", "")]


def test_a_million_prompts_are_refused_before_any_is_looked_at() -> None:
    looked_at = 0

    class Prompts(list[Any]):
        def __iter__(self) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().__iter__()

    assert refusal(reading("logprobs"), prompt=Prompts([[1]] * 10**6)).param == "prompt"
    assert looked_at == 0


def test_an_expiry_has_both_its_members() -> None:
    assert read_expiry({"anchor": "created_at", "seconds": 2592000}) == 2592000
    part = "'expires_after.seconds' is missing: it must be an integer from 3600"
    assert not refused_otherwise(
        [({"anchor": "created_at"}, "expires_after.seconds", part)], lambda **one: read_expiry(one)
    )


@pytest.mark.parametrize(
    ("window", "seconds"), [("24h", DAY), ("1s", 1), ("90m", 5400), ("30d", 30 * DAY), ("2592000s", 30 * DAY)]
)
def test_the_window_of_a_batch_is_a_number_and_a_unit(window: str, seconds: int) -> None:
    metadata = {"k" * 64: "v" * 512, "": ""}
    batch = reading("batches")(completion_window=window, metadata=metadata)
    assert (batch.window_s, batch.metadata) == (seconds, metadata)


def test_an_adapter_is_one_that_there_is_and_the_models() -> None:
    served = ServedModel(MODEL, LIMITS, ("a", "b"))

    def reading_for(served: ServedModel) -> Callable[..., Any]:
        return lambda **fields: ChatRequestReader(served).read(chat_body(**fields))

    def asked(adapter: str | None, **more: Any) -> dict[str, Any]:
        return {"vocab": {**VOCAB, "adapter": adapter}, **more}

    read, merged = reading_for(served), reading_for(replace(served, merged="a"))
    unknown: list[Fault] = [({"model": "c"}, "model", "model 'c'"), (asked("c"), "vocab.adapter", "adapter 'c'")]
    assert not refused_otherwise(unknown, read, status=404)
    others: list[Fault] = [(asked(one, model="a"), "vocab.adapter", "names another adapter") for one in ("b", None)]
    assert not refused_otherwise(others, read)
    assert not refused_otherwise([(asked(None), "vocab.adapter", "merged into the model")], merged)
    assert not not_taken([{}, {"model": "a"}, asked("a", model="a"), asked("auto", model="a"), asked("b")], read)
    assert not not_taken([asked("a")], merged)
    assert (read(model="a").body["model"], read().body["model"]) == ("a", MODEL)
