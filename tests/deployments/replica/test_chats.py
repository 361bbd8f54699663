"""What the engine is asked for chats and completions, and what their answers have besides the text."""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from deployments.adapter_files import Adapter, Card
from deployments.contract import Decoding
from deployments.errors import ConflictError
from deployments.replica.deployment import Replica
from deployments.replica.engine.engine_adapters import EngineAdapters
from deployments.replica.engine.health import check_context
from deployments.replica.prompt import hint_line
from deployments.settings.service import Settings
from tests.deployments.replica.toy_engine import Said
from tests.deployments.replica.world import MODEL, WORDS, ReplicaWorld, block, parts, read, refusal
from vocab.matching.log_mass import UNMASKED_TOP, mark
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS, ListOptions

DONE = "data: [DONE]\n\n"
TEXT = Said(("The cat", " sat."))
WorldOf = Callable[..., ReplicaWorld]


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def test_free_text_is_vllms_own(world: ReplicaWorld) -> None:
    world.engine.said = [Said(("any", "thing"))]
    items = await world.ask(stream=True)
    assert (parts(items), items[-1]) == (["any", "thing"], DONE)
    assert not any("vocab" in one for one in read(items)[0])
    assert world.params.structured_outputs is None
    assert "req-1" in world.engine.requests[-1][2]


async def test_each_key_has_its_own_part_of_the_prefix_cache(world: ReplicaWorld) -> None:
    salts: list[Any] = []
    for owner in ("alice", "alice", "bob"):
        await world.ask(owner=owner, cache_salt="a client's")
        salts += world.engine.salts
        world.engine.salts.clear()
    assert salts[0] == salts[1] != salts[2]
    assert {len(salt) for salt in salts} == {64}


async def test_a_constrained_request_names_its_list_and_budget(world: ReplicaWorld) -> None:
    world.engine.said = [TEXT]
    listed = world.vocabulary
    assert block(await world.ask(listed)) == {
        "id": listed.id, "list_id": listed.digest, "lang": "en", "source": "inline", "n_words": 20, "unit": "form",
        "end": "word", "adapter": None, "num_words": 3, "num_distinct_words": 3, "max_rank": 6,
    }  # fmt: skip
    assert world.reference == GrammarReference(listed.digest, DEFAULT_OPTIONS, len(WORDS), 9)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_cost_of_a_search_comes_with_the_answer_of_a_list(world: ReplicaWorld, stream: bool) -> None:
    found = block(await world.ask(world.vocabulary, Decoding(best_of=4), stream=stream, max_tokens=20, seed=1))
    assert len(world.engine.requests) == 4
    assert found["generated_tokens"] > 4 and found["log_mass_per_word"] > 0
    free = await world.ask(None, Decoding(best_of=4), stream=stream)
    assert len(world.engine.requests) == 8
    assert "vocab" not in str(free)
    assert "generated_tokens" not in block(await world.ask(world.vocabulary, Decoding(), stream=stream, max_tokens=20))


async def test_the_usage_says_how_long_the_answer_took(world: ReplicaWorld) -> None:
    text = '"usage":{'
    world.engine.said = [Said((text,))]
    streamed = await world.ask(stream=True, stream_options={"include_usage": True})
    assert parts(streamed) == [text], "a text that looks like a usage is none"
    for items in (streamed, await world.ask()):
        last = read(items)[0][-1]
        assert last["usage"]["completion_tokens"] > 0
        assert last["usage"]["timing"]["total_time_ms"] >= 0
        assert "metrics" not in last


@pytest.mark.parametrize("is_listed", [True, False])
async def test_token_details_come_with_the_text_of_their_tokens(
    world: ReplicaWorld, small: ReplicaWorld, is_listed: bool
) -> None:
    the, cat, dot = (world.tokenizer.encode(text)[0] for text in ("The", " cat", "."))
    tops = [
        {the: -0.5, cat: mark(-1.0)},
        {cat: mark(-3.0), dot: mark(-0.1), the: mark(-4.0)},
        {dot: 1e-9},
    ]
    world.engine.said = [Said(("The", " cat", "."), tops=tops)]
    vocabulary = world.vocabulary if is_listed else None
    options = {"token_details": True, "top_k": 2, "include_usage": True}
    sent, _ = read(await world.ask(vocabulary, stream=True, stream_options=options))
    choices = [choice for one in sent for choice in one["choices"] if "content" in choice["delta"]]
    assert all(choice["logprobs"] is None for choice in choices)
    texts = [(one["delta"]["content"], [bytes(token["bytes"]) for token in one["token_details"]]) for one in choices]
    # After the first word, one waits until it is known to be whole, and so do its tokens.
    listed = [("The", [b"The"]), (" ", []), ("cat.", [b" cat", b"."])]
    assert texts[1:] == (listed if is_listed else [("The", [b"The"]), (" cat", [b" cat"]), (".", [b"."])])
    details = [one for choice in choices for one in choice["token_details"]]
    assert [one["prob"] for one in details] == pytest.approx([math.exp(log_p) for log_p in (-0.5, -3, 0)])
    assert [one["is_forced"] for one in details] == [False, True, False]
    assert [[(top["token_id"], top["is_masked"]) for top in one["top_k"]] for one in details] == [
        [(the, False), (cat, True)], [(dot, True), (cat, False), (the, True)], [(dot, False)],
    ]  # fmt: skip
    assert all(one["latency_ms"] >= 0 and one["is_generated"] for one in details)
    assert (world.params.logprobs, world.params.extra_args[UNMASKED_TOP]) == (2, True)
    # The default may be more than the service allows.
    await small.ask(small.vocabulary if is_listed else None, stream=True, stream_options={"token_details": True})
    assert small.params.logprobs == 0


async def test_a_trace_goes_on_in_the_engine(world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_tracing_enabled() -> bool:
        return True

    monkeypatch.setattr(world.engine, "is_tracing_enabled", is_tracing_enabled)
    span = NonRecordingSpan(SpanContext(trace_id=10, span_id=11, is_remote=False, trace_flags=TraceFlags(1)))
    with use_span(span):
        for vocabulary in (None, world.vocabulary):
            await world.ask(vocabulary)
            headers = world.engine.requests[-1][3]["trace_headers"]
            assert headers["traceparent"] == f"00-{10:032x}-{11:016x}-01"


async def test_what_must_not_come_twice_is_part_of_the_constraint_and_a_default_of_the_service(
    world: ReplicaWorld,
) -> None:
    usual = world.settings.no_repeat_ngram_size
    assert usual
    for asked, expected in ((3, 3), (None, usual), (0, None)):
        await world.ask(world.vocabulary, Decoding(no_repeat_ngram_size=asked), max_tokens=20)
        assert world.reference.no_repeat == expected


async def test_the_matcher_keeps_the_least_tokens_and_vllm_does_not(world: ReplicaWorld) -> None:
    await world.ask(world.vocabulary, min_tokens=5)
    assert (world.reference.min_tokens, world.params.min_tokens) == (5, 0)
    await world.ask(min_tokens=5)
    assert world.params.min_tokens == 5


async def test_an_error_of_the_service_is_told_as_it_is(world: ReplicaWorld) -> None:
    world.engine.failure = ConflictError("It is being replaced.", "model", "being_replaced")
    for vocabulary in (None, world.vocabulary):
        error = refusal(await world.ask(vocabulary))
        assert (error.status, error.param, error.code) == (409, "model", "being_replaced")


async def test_a_failure_of_the_engine_tells_nothing_and_ends_a_stream(world: ReplicaWorld) -> None:
    world.engine.failure = RuntimeError("secret")
    world.engine.said = [Said(("a", "b"))]
    for stream in (False, True):
        items = await world.ask(stream=stream)
        assert parts(items) == (["a"] if stream else [])
        error = items[-1]
        assert (error.status, "secret" in str(items)) == (500, False)
        assert DONE not in items


TEMPLATE = """{% for message in messages if message.role != 'system' %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>{% endfor %}{% if enable_thinking is false %}quickly{% endif %}{{ style }}"""
"""It takes no system message, and has two switches."""


@pytest.fixture
def templated(world_of: WorldOf) -> ReplicaWorld:
    return world_of("templated", engine_kwargs={"chat_template": TEMPLATE})


@pytest.mark.fault(22)
async def test_only_the_switches_of_the_models_own_template_can_be_set(templated: ReplicaWorld) -> None:
    await templated.ask(chat_template_kwargs={"enable_thinking": False, "style": "<|im_end|>"})
    assert "quickly" in templated.prompt
    assert templated.engine.requests[-1][0].count(templated.tokenizer.eos_token_id) == 1
    error = refusal(await templated.ask(chat_template_kwargs={"messages": "mine"}))
    assert (error.status, error.param) == (400, "chat_template_kwargs")
    assert "enable_thinking, style" in error.message


async def test_the_model_is_told_of_its_vocabulary_where_that_is_asked_for(
    world: ReplicaWorld, templated: ReplicaWorld
) -> None:
    for one in (world, templated):
        await one.ask(one.vocabulary)
        plain = one.prompt
        await one.ask(None, Decoding(hint=True))
        assert one.prompt == plain
        await one.ask(one.vocabulary, Decoding(hint=True, no_repeat_ngram_size=0))
        assert hint_line("en") in one.prompt
        before, _, after = one.prompt.partition(hint_line("en"))
        assert before.endswith("system\n" if one is world else "user\n")
        assert "Hello" in after


def adapted(**options: Any) -> EngineAdapters:
    """One that was trained for the list, one that was not, and one that does not say for which."""
    cards = {"a": Card(languages=("en",)), "b": Card(languages=("es",)), "c": None}
    adapters = {name: Adapter(name, Path("/adapters") / name, "", {}, {}, (), card) for name, card in cards.items()}
    return EngineAdapters(MODEL, adapters, **options)


@pytest.mark.parametrize("is_merged", [False, True])
async def test_an_answer_has_the_name_that_was_asked_for_and_tells_its_adapter(
    world_of: WorldOf, is_merged: bool
) -> None:
    world = world_of(f"merged {is_merged}", adapters=adapted(merged="a" if is_merged else None))
    world.engine.said = [TEXT]
    others = () if is_merged else ("b", "c")
    for model, listed, adapter in (
        (MODEL, world.vocabulary, "a"), ("a", world.vocabulary, "a"), ("a", None, "a"),
        *((name, world.vocabulary, name) for name in others),
    ):  # fmt: skip
        for stream in (False, True):
            items = await world.ask(listed, Decoding(hint=True, no_repeat_ngram_size=0), model=model, stream=stream)
            assert {one["model"] for one in read(items)[0]} == {model}
            lora = world.engine.requests[-1][3].get("lora_request")
            assert (None if lora is None else lora.lora_name) == (None if is_merged else adapter)
            # An adapter that was trained for the list is told its size.
            assert (f"(top-{len(WORDS)})" in world.prompt) == (listed is not None and adapter == "a")
            if listed is not None:
                assert block(items)["adapter"] == adapter


PREFILL: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}


def begun(text: Any) -> dict[str, Any]:
    return {**PREFILL, "messages": [said("Hello"), {"role": "assistant", "content": text}]}


async def test_the_constraint_begins_where_the_clients_own_text_ends(world: ReplicaWorld) -> None:
    places = set()
    for text, answered in (("A zebra", " sat. The cat"), ("A zebra ", "sat"), ("A zebra.", " The cat")):
        world.engine.said = [Said((answered,))]
        for content in (text, [{"type": "text", "text": "Well"}, {"type": "text", "text": text}]):
            items = await world.ask(world.vocabulary, **begun(content))
            assert parts(items) == [answered]
            assert block(items)["num_words"] == len(answered.split())
            assert world.prompt.endswith(text)
            places.add(world.reference.place)
    assert len(places) == 3


async def test_what_does_not_fit_behind_the_clients_own_text_is_no_answer(world: ReplicaWorld) -> None:
    listed = world.resolve(world.spec, ListOptions(end="word", case="sentence"))
    for text, answered in (("A zebra", "sat"), ("A zebra ", " sat"), ("A zebra", " The")):
        world.engine.said = [Said((answered,))]
        assert refusal(await world.ask(listed, **begun(text))).code == "unlisted_text"


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("world", {"stop": ["x"], "return_token_ids": True}, "return_token_ids", "where the text may be trimmed"),
    ("world", begun("The ca"), "messages", "breaks off inside a word: 'ca'"),
    ("mute", {}, "model", "has no chat template"),
    ("xgrammar", {"min_tokens": 5}, "min_tokens", "mask engine is xgrammar"),
    ("xgrammar", {"prompt": "The cat. "}, "vocab", "mask engine is xgrammar"),
    ("thinker", begun("A zebra"), "continue_final_message", "thinks before it answers"),
    ("thinker", {"return_token_ids": True}, "return_token_ids", "thinks before it answers"),
    ("thinker", {"prompt": "The cat. "}, "vocab", "thinks before it answers"),
]
"""A replica, the fields of a request in its list, the one that is named, and a part of what is said."""


async def test_what_a_replica_cannot_do_is_refused_by_its_name(request: pytest.FixtureRequest) -> None:
    for name, fields, param, part in REFUSED:
        one: ReplicaWorld = request.getfixturevalue(name)
        error = refusal(await one.ask(one.vocabulary, **fields))
        assert (error.status, error.param, part in error.message) == (400, param, True), (name, fields)
        assert not one.engine.requests


async def test_a_grammar_has_no_rules_against_runs(xgrammar: ReplicaWorld) -> None:
    xgrammar.engine.said = [TEXT]
    assert parts(await xgrammar.ask(xgrammar.vocabulary, Decoding())) == ["The cat sat."]


THOUGHTS = "Zebras? No; none of the list."
THOUGHT = ("Here is my thought process:", THOUGHTS[:9], THOUGHTS[9:], "Here is my response:")


@pytest.mark.parametrize("shows", [True, False, None])
@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_are_free_and_shown_unless_the_client_wants_none(
    thinker: ReplicaWorld, stream: bool, shows: bool | None
) -> None:
    thinker.engine.said = [Said((*THOUGHT, "The cat ", "sat."))]
    fields: dict[str, Any] = {} if shows is None else {"include_reasoning": shows}
    items = await thinker.ask(thinker.vocabulary, stream=stream, **fields)
    assert "".join(parts(items)) == "The cat sat."
    sent = [choice.get("delta") or choice["message"] for one in read(items)[0] for choice in one["choices"]]
    assert "".join(part.get("reasoning") or "" for part in sent) == ("" if shows is False else THOUGHTS)


async def test_an_answer_that_thinking_left_no_room_for_is_trimmed(thinker: ReplicaWorld) -> None:
    for text, kept in (("The cat sat. The c", "The cat sat. The"), ("Th", None)):
        thinker.engine.said = [Said((*THOUGHT, text), "length")]
        sent, _ = read(await thinker.ask(thinker.vocabulary))
        [choice] = sent[0]["choices"]
        assert (choice["message"]["content"] or None, choice["finish_reason"]) == (kept, "length")


async def test_part_of_the_budget_is_kept_for_the_answer(thinker: ReplicaWorld) -> None:
    sentences = thinker.resolve(thinker.spec, ListOptions(end="sentence"))
    thinker.engine.said = [Said((*THOUGHT, "The cat sat."))]
    for max_tokens, asked, given in (
        (400, None, 300), (400, 50, 50), (400, 350, 300), (400, -1, 300), (8, None, 2), (5, None, 0),
    ):  # fmt: skip
        fields: dict[str, Any] = {} if asked is None else {"thinking_token_budget": asked}
        await thinker.ask(sentences, max_tokens=max_tokens, **fields)
        assert thinker.params.thinking_token_budget == given
        assert thinker.reference.max_tokens == max_tokens


def talk(*texts: str) -> list[dict[str, str]]:
    roles = ["system", "user", "assistant", "user"]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]


LONG = talk("Be kind.", "one " * 30, "two " * 30, "three three")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_says_how_many_messages_it_left_out(small: ReplicaWorld, stream: bool) -> None:
    small.engine.said = [Said(("any", "thing"))]
    first, *others = read(await small.ask(stream=stream, messages=LONG))[0]
    assert first["input_overflow"] == {"dropped_messages": 2}
    assert "input_overflow" not in str(others)
    assert "three three" in small.prompt and "Be kind." in small.prompt and "one" not in small.prompt
    assert "input_overflow" not in str(await small.ask(stream=stream, messages=LONG[:1] + LONG[3:]))
    small.engine.said = [Said(('"input_overflow": 1',))]
    assert parts(await small.ask(stream=stream)) == ['"input_overflow": 1']


async def test_what_cannot_or_may_not_be_shortened_is_the_error_of_before(
    world: ReplicaWorld, small: ReplicaWorld
) -> None:
    too_long = talk("Be kind.", "short", "small", "x " * 50)
    long = talk("Be kind.", "one " * 600, "two " * 600, "three")
    for one, messages in ((small, too_long), (world, long)):
        error = refusal(await one.ask(messages=messages))
        assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "messages")


@pytest.mark.parametrize(
    ("messages", "kept", "cut"),
    [
        # The longest of what has to stay, at its end; turns go first.
        (talk("Be kind.", "one " * 30, "two " * 30, "begin " + "three " * 200), ("Be kind.", "begin three"), "one"),
        (talk("Always begin. " + "rule " * 200, "one", "two", "three"), ("Always begin.", "three"), "two"),
        ([{"role": "user", "content": [{"type": "text", "text": "begin"}, {"type": "text", "text": "x " * 99}]}],
         ("begin\nx x",), "x " * 99),
    ],
)  # fmt: skip
async def test_a_text_that_is_too_long_by_itself_is_cut_at_its_end_where_the_settings_say_so(
    world_of: WorldOf, messages: list[dict[str, Any]], kept: tuple[str, ...], cut: str
) -> None:
    limits = {"max_input_tokens": 60, "max_rows_bytes": 2**22}
    cutting = world_of("cutting", limits=limits, input_overflow="truncate_text")
    cutting.engine.said = [Said(("any", "thing"))]
    [answer] = await cutting.ask(messages=messages)
    overflow = answer["input_overflow"]
    assert overflow == {"dropped_messages": len(messages) // 2, "cut_characters": overflow["cut_characters"]}
    assert overflow["cut_characters"] > 0
    assert all(text in cutting.prompt for text in kept) and cut not in cutting.prompt
    # Not more than has to be.
    assert answer["usage"]["prompt_tokens"] >= limits["max_input_tokens"] - 2
    assert "cut_characters" not in str(await cutting.ask(messages=LONG))


async def test_what_is_too_long_without_any_text_is_an_error(world_of: WorldOf) -> None:
    limits = {"max_input_tokens": 20, "max_rows_bytes": 2**22}
    cutting = world_of("tiny", limits=limits, input_overflow="truncate_text")
    error = refusal(await cutting.ask(messages=talk("one " * 30, "two", "three", "four " * 60)))
    assert (error.status, error.code) == (400, "context_length_exceeded")


async def test_the_hint_counts_and_stays(small: ReplicaWorld) -> None:
    small.engine.said = [TEXT]
    messages = LONG[1:]
    [answer] = await small.ask(small.vocabulary, Decoding(hint=True, no_repeat_ngram_size=0), messages=messages)
    assert answer["input_overflow"] == {"dropped_messages": 2}
    assert answer["vocab"]["num_words"] == 3
    assert hint_line("en") in small.prompt and "three three" in small.prompt and "one" not in small.prompt


def test_a_service_that_does_not_fit_its_model_is_refused() -> None:
    settings = Settings.load({"secret_token": "k", "limits": {"max_input_tokens": 60, "max_new_tokens": 40}}, {})
    check_context(settings, 100)
    with pytest.raises(ValueError, match=r"MAX_INPUT_TOKENS \(60\).*ALLOWED_MAX_NEW_TOKENS \(40\).*99 tokens"):
        check_context(settings, 99)


@pytest.mark.fault(55)
def test_batches_leave_places_of_the_engine_free() -> None:
    for lines_in_flight, max_num_seqs, places in ((10, 64, 10), (64, 64, 56), (500, 64, 56), (9, 4, 3), (9, 1, 1)):
        settings = Settings.load({"secret_token": "k", "batch": {"lines_in_flight": lines_in_flight}}, {})
        scheduler = SimpleNamespace(max_num_seqs=max_num_seqs)
        client = SimpleNamespace(vllm_config=SimpleNamespace(scheduler_config=scheduler))
        server: Any = SimpleNamespace(engine=SimpleNamespace(_engine_client=client))
        assert Replica._num_batch_sequences(server, settings) == places
