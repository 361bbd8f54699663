"""Runs over a model without a model: events add up to the text, the constraint holds, and steps are called back."""

import json
import math
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tests.recogniser import recogniser
from wordbound.lm import MockAsyncLM, WordList
from wordbound.lm.programs import (
    Capture,
    Event,
    Replace,
    Run,
    RunError,
    Sampling,
    Step,
    StepContext,
    StepFeedback,
    StopRun,
)

OWN = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "extraordinary", "antidisestablishment"]
GREEDY = Sampling(temperature=0)
OTHER = {",": b";", ";": b","}


class Model(MockAsyncLM):
    """A mock model that counts its rows."""

    num_rows = 0

    def _row(self, ids: tuple[int, ...]) -> torch.Tensor:
        self.num_rows += 1
        return super()._row(ids)


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> Model:
    return Model(AutoTokenizer.from_pretrained(smollm2_path), 49_408)


@pytest.fixture(scope="module")
def own(model: Model) -> WordList:
    return WordList("en", None, model, words=OWN)


async def written(run: Run) -> Run:
    async for event in run:
        assert event is run.events[-1]
    return run


def replayed(events: list[Event]) -> bytes:
    """The text as a client puts it together from events."""
    text = b""
    for event in events:
        assert text.endswith(event.backtrack_bytes)
        text = text[: len(text) - len(event.backtrack_bytes)] + event.new_bytes
    return text


def assert_whole(run: Run) -> None:
    """Events, tokens and usage of a run agree."""
    assert run.reason is not None
    assert replayed(run.events).endswith(run.text_bytes)
    assert b"".join(token.bytes for token in run.tokens).endswith(run.text_bytes)
    assert sum(token.is_generated for event in run.events for token in event.tokens) == run.usage.output_tokens
    assert len(run.usage.mask_times_ms) == run.usage.output_tokens
    assert run.usage.mask_overheads_ms.p99 <= run.usage.mask_times_ms.p99 + 0.001


async def test_a_free_run_reports_the_models_own_probabilities(model: Model) -> None:
    run = await written(model.run("Once upon a time", max_tokens=8, sampling=Sampling(seed=3), top_k=4))
    assert_whole(run)
    assert (run.reason, len(run.tokens), run.usage.forward_passes) == ("length", 8, 8)
    ids = model.tokenizer("Once upon a time")["input_ids"]
    for token in run.tokens:
        row = model.next_token_logprobs_sync(ids)
        assert token.prob == pytest.approx(math.exp(row[token.token_id]), abs=1e-6)
        likeliest = row.topk(4).indices.tolist()
        assert [one.token_id for one in token.top_k] == [*likeliest, *({token.token_id} - set(likeliest))]
        assert [one.prob for one in token.top_k] == sorted((one.prob for one in token.top_k), reverse=True)
        assert not any(one.is_masked for one in token.top_k)
        assert token.is_generated and not token.is_forced and token.latency_ms > 0
        ids.append(token.token_id)
    assert run.text == model.tokenizer.decode(run.token_ids)
    assert 0 < run.usage.ttft_ms < run.usage.total_latency_ms
    assert run.usage.cached_input_tokens == run.usage.input_tokens - run.usage.forward_passes - 3


async def test_a_run_over_a_list_writes_its_texts_and_forces_where_there_is_one_way(
    model: Model, own: WordList
) -> None:
    judge = recogniser(tuple(OWN), len(OWN), "en", punctuation="standard")
    num_forced = 0
    for seed in range(6):
        runs = []
        for fast_forward in (True, False):
            before = model.num_rows
            sampling = Sampling(seed=seed) if fast_forward else GREEDY
            options: Any = {"max_tokens": 20, "sampling": sampling, "fast_forward": fast_forward}
            run = await written(model.run("Tell me.", vocab=own, score_forced=False, **options))
            assert_whole(run)
            assert judge.is_text(run.text), run.text
            assert run.usage.forward_passes == run.usage.output_tokens == model.num_rows - before
            assert all(math.isnan(token.prob) and not token.top_k for token in run.tokens if token.is_forced)
            runs.append(run)
        num_forced += runs[0].usage.ff_tokens
        assert sum(token.is_forced for token in runs[0].tokens) == runs[0].usage.ff_tokens
        assert not runs[1].usage.ff_tokens
    assert num_forced


async def test_texts_are_the_same_with_and_without_forced_tokens(model: Model, own: WordList) -> None:
    for prompt in ("One", "Two", "Three", "Four"):
        with_them, without = [
            await written(model.run(prompt, vocab=own, max_tokens=24, sampling=GREEDY, fast_forward=fast_forward))
            for fast_forward in (True, False)
        ]
        assert with_them.token_ids == without.token_ids
        assert with_them.usage.output_tokens + with_them.usage.ff_tokens == without.usage.output_tokens
        assert any(one.is_masked for token in without.tokens for one in token.top_k)
        state = own.start
        for token in without.tokens:
            allowed = own.mask(state)
            assert all(one.is_masked for one in token.top_k if not allowed[one.token_id])
            state = own.next(state, token.token_id)


async def test_a_lark_grammar_captures_named_groups_with_their_probability(model: Model) -> None:
    grammar = 'start: "Name: " name " Age: " age\nname[capture]: /[A-Z][a-z]{2,5}/\nage[capture]: /[0-9]{1,2}/\n'
    run = await written(model.run("A form.\n", lark=grammar, max_tokens=40, sampling=Sampling(seed=5)))
    assert_whole(run)
    found = re.fullmatch(r"Name: ([A-Z][a-z]{2,5}) Age: ([0-9]{1,2})", run.text)
    assert found is not None, run.text
    assert run.reason == "stop"
    assert run.usage.ff_tokens
    for name, text in zip(("name", "age"), found.groups(), strict=True):
        capture = run.captures[name]
        assert isinstance(capture, Capture)
        assert capture.text == text
        assert capture.logprob == pytest.approx(_full_logprob(model, run, capture.bytes), abs=1e-3)
    assert run.events[0].captures == {}
    assert run.events[-1].captures == run.captures


def _full_logprob(model: Model, run: Run, captured: bytes) -> float:
    """The log probability of a capture, by a row for each token of the run."""
    at = b"".join(token.bytes for token in run.tokens).rfind(captured)
    ids, place, total = list(run._prompt), 0, 0.0
    for token in run.tokens:
        if place < at + len(captured) and place + len(token.bytes) > at:
            total += float(model.next_token_logprobs_sync(ids)[token.token_id])
        place += len(token.bytes)
        ids.append(token.token_id)
    return total


async def test_forced_tokens_have_the_models_probabilities_and_likeliest_tokens(model: Model, own: WordList) -> None:
    grammar = 'start: "Name: " name " Age: " age\nname: /[A-Z][a-z]{2,5}/\nage: /[0-9]{1,2}/\n'
    constraints: list[dict[str, Any]] = [{"lark": grammar}, {"vocab": own}]
    for constraint in constraints:
        run = await written(model.run("A form.\n", max_tokens=14, sampling=Sampling(seed=5), top_k=3, **constraint))
        ids, forced = list(run._prompt), 0
        for token in run.tokens:
            row = model.next_token_logprobs_sync(ids)
            assert token.prob == pytest.approx(math.exp(row[token.token_id]), abs=1e-6)
            assert {one.token_id for one in token.top_k} == {*row.topk(3).indices.tolist(), token.token_id}
            if token.is_forced:
                forced += 1
                assert all(one.is_masked == (one.token_id != token.token_id) for one in token.top_k)
            ids.append(token.token_id)
        assert forced
        # The events had them already.
        assert {id(token) for token in run.tokens} <= {id(token) for event in run.events for token in event.tokens}
    assert run.usage.token_savings == run.usage.ff_tokens / (run.usage.ff_tokens + run.usage.output_tokens)
    assert 0 < run.usage.ttfm_ms < run.usage.total_latency_ms
    assert 0 < run.usage.avg_latency_ms < run.usage.total_latency_ms
    assert min(run.usage.mask_times_ms) <= run.usage.mask_times_ms.mean <= max(run.usage.mask_times_ms)


async def test_a_lark_grammar_has_temperatures_of_its_own(model: Model) -> None:
    likeliest = 'start: ": " word\nword[temperature=0]: /[a-z]{6}/\n'
    texts = set()
    for seed in range(4):
        run = await written(model.run("A word", lark=likeliest, sampling=Sampling(temperature=50.0, seed=seed)))
        texts.add(run.text)
        assert all(token.prob == max(one.prob for one in token.top_k if not one.is_masked) for token in run.tokens)
    assert len(texts) == 1
    hot = likeliest.replace("=0", "=50") + "# a[temperature=0]: ..."
    for grammar in (hot, hot.replace("[temperature=50]", "")):
        temperature = 0.0 if grammar is hot else 50.0
        runs = [
            await written(model.run("A word", lark=grammar, sampling=Sampling(temperature=temperature, seed=seed)))
            for seed in range(4)
        ]
        assert len({run.text for run in runs}) > 1


async def test_a_regex_and_a_json_schema(model: Model) -> None:
    run = await written(model.run("Now", regex="(yes|no)( indeed){2,3}", max_tokens=30, sampling=Sampling(seed=1)))
    assert re.fullmatch("(yes|no)( indeed){2,3}", run.text)
    schema = {
        "type": "object",
        "properties": {"n": {"enum": ["one", "two"]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    for given_schema in (schema, json.dumps(schema)):
        run = await written(model.run("Now", json_schema=given_schema, max_tokens=60, sampling=Sampling(seed=2)))
        assert json.loads(run.text)["n"] in ("one", "two")


async def test_a_text_that_may_end_ends_where_the_model_would_leave_the_grammar(model: Model) -> None:
    run = await written(model.run("Now", regex="[a-z]+", max_tokens=50, sampling=Sampling(seed=1)))
    assert (run.reason, re.fullmatch("[a-z]+", run.text) is not None) == ("stop", True)
    assert run.events[-1].tokens[-1].token_id == model.tokenizer.eos_token_id
    assert len(run.tokens) < 50


def test_bad_arguments_are_refused(model: Model) -> None:
    for options, said in (
        ({"lark": "start: nothing"}, "the grammar cannot be used"),
        ({"regex": "("}, "the grammar cannot be used"),
        ({"json_schema": "{"}, "the grammar cannot be used"),
        ({"regex": "a", "lark": "start: /a/"}, "a run has one constraint: give one of lark and regex"),
        ({"lark": 'start: a "b"\na[capture, temperature=warm]: /c/'}, "the grammar cannot be used"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"top_k": -1}, "top_k at least 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            model.run("Now", **options)
    # A grammar may write of temperatures.
    run = model.run_sync("Now", lark='start: "a[temperature=0.5]: b"', sampling=GREEDY)
    assert run.text == "a[temperature=0.5]: b"
    for steps in ({}, {"every_k": 0}, {"stop_strings": [""]}, {"stop_strings": "."}):
        with pytest.raises(ValueError, match=r"every_k|stop_strings"):
            Step(print, **steps)
    with pytest.raises(TypeError, match="removed must be str, and text str or bytes, not bytes and dict"):
        Replace(b"cat", {"text": "dog"})  # type: ignore[arg-type]


async def test_a_callback_comes_every_k_tokens_and_sees_the_step(model: Model, own: WordList) -> None:
    seen: list[StepContext] = []
    step = Step(seen.append, every_k=4)
    run = await written(model.run("Now", vocab=own, max_tokens=30, sampling=Sampling(seed=4), step=step))
    assert_whole(run)
    assert [context.number for context in seen] == list(range(1, len(seen) + 1))
    assert len(seen) > 2
    assert all(context.boundary == "every_k" and len(context.tokens) >= 4 for context in seen)
    assert [token for context in seen for token in context.tokens] == run.tokens[: sum(len(c.tokens) for c in seen)]
    assert run.text.startswith(seen[-1].text)


async def test_injected_text_heals_with_the_word_before_it(model: Model, own: WordList) -> None:
    async def go_on(context: StepContext) -> str | None:
        return " extraordinary cat" if context.number == 1 else None

    step = Step(go_on, every_k=3)
    run = await written(model.run("Now", vocab=own, max_tokens=40, sampling=Sampling(seed=15), step=step))
    assert_whole(run)
    feedbacks: list[StepFeedback] = [{"injected_text": " extraordinary cat"}, {"injected_bytes": b" extraordinary cat"}]
    for feedback in feedbacks:

        def go_on_as_guidance(context: StepContext, feedback: StepFeedback = feedback) -> StepFeedback:
            return feedback if context.number == 1 else {}

        step = Step(go_on_as_guidance, every_k=3)
        again = await written(model.run("Now", vocab=own, max_tokens=40, sampling=Sampling(seed=15), step=step))
        assert again.text == run.text
    judge = recogniser(tuple(OWN), len(OWN), "en", punctuation="standard")
    assert judge.is_text(run.text), run.text
    assert " extraordinary cat" in run.text
    injected = next(event for event in run.events if b"extraordinary cat" in event.new_bytes)
    assert all(token.is_forced and not token.is_generated and token.prob < 1 for token in injected.tokens)
    assert run.token_ids == model.tokenizer(run.text)["input_ids"]


async def test_at_a_stop_string_it_is_replaced_by_what_is_injected(model: Model) -> None:
    grammar = "start: WORD MARK WORD MARK WORD MARK WORD\nMARK: /[,;]/\nWORD: /[a-z]{1,8}/\n"
    seen: list[StepContext] = []

    def replace_once(context: StepContext) -> bytes | None:
        seen.append(context)
        return OTHER[context.text[-1]] + b"inject," if context.number == 1 else None

    step = Step(replace_once, stop_strings=[",", ";"])
    run = await written(model.run("Now", lark=grammar, max_tokens=40, sampling=Sampling(seed=2), step=step))
    assert_whole(run)
    assert seen, run.text
    assert (seen[0].boundary, seen[0].stop_string) == ("stop_string", seen[0].text[-1])
    assert run.text.startswith(seen[0].text[:-1] + OTHER[seen[0].text[-1]].decode() + "inject,")
    event = next(event for event in run.events if event.injection_backtrack)
    assert event.backtrack and event.backtrack_bytes.endswith(seen[0].text[-1].encode())


async def test_a_step_ends_at_a_stop_string_after_which_more_is_forced(model: Model) -> None:
    grammar = 'start: "A: " word "\\nB: " word "\\n"\nword: /[a-z]{3,8}/\n'
    seen: list[str] = []

    def once_more(context: StepContext) -> Replace | None:
        seen.append(context.text)
        _, _, word = context.text.rpartition(": ")
        return Replace(word, "") if len(seen) in (1, 3) else None

    step = Step(once_more, stop_strings=["\n"])
    run = await written(model.run("Now", lark=grammar, max_tokens=80, sampling=Sampling(seed=6), step=step))
    assert_whole(run)
    # Each of the two lines was written twice, and the last step is called back at the end of the text too.
    assert [text.count("\n") for text in seen] == [1, 1, 2, 2]
    assert run.text == seen[-1]
    assert run.text.startswith(seen[1])
    assert sum(event.injection_backtrack for event in run.events) == 2


NO_FEEDBACK: list[Any] = [{"text": "cat"}, 0, ["cat"]]


@pytest.mark.fault(70)
@pytest.mark.parametrize(
    ("feedback", "said"),
    [
        (" UNLISTED 1", "b' UNLISTED 1' cannot be injected: "),
        (Replace("no such end", "cat"), "b'cat' cannot be injected: the text does not end with b'no such end'"),
        *((one, f"the callback returned {type(one).__name__}: return the text") for one in NO_FEEDBACK),
    ],
    ids=repr,
)
async def test_what_may_not_be_injected_is_an_error_and_the_text_stays(
    model: Model, own: WordList, feedback: Any, said: str
) -> None:
    constraints: list[dict[str, Any]] = [{"vocab": own}, {"regex": "[a-z ]{20,60}"}]
    for constraint in constraints:
        step = Step(lambda _: feedback, every_k=2)
        run = model.run("Now", max_tokens=40, sampling=Sampling(seed=2), step=step, **constraint)
        with pytest.raises(RunError, match=re.escape(f"step 1: {said}")):
            await written(run)
        assert run.text
        assert replayed(run.events) == run.text_bytes


@pytest.mark.fault(70)
async def test_a_callback_may_end_the_run_or_raise(model: Model, own: WordList) -> None:
    def stop(_: StepContext) -> None:
        raise StopRun

    run = await written(
        model.run("Now", vocab=own, max_tokens=40, sampling=Sampling(seed=2), step=Step(stop, every_k=2))
    )
    assert (run.reason, bool(run.text)) == ("callback", True)

    def fail(_: StepContext) -> None:
        raise KeyError("mine")

    run = model.run("Now", vocab=own, max_tokens=40, sampling=Sampling(seed=2), step=Step(fail, every_k=2))
    with pytest.raises(KeyError, match="mine"):
        await written(run)
    assert run.text


def test_a_run_without_await_and_with_messages(model: Model, own: WordList) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    run = model.run_sync(messages, vocab=own, max_tokens=6, sampling=GREEDY)
    assert_whole(run)
    ids = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert run.token_ids == model.run_sync(ids, vocab=own, max_tokens=6, sampling=GREEDY).token_ids


async def test_a_chat_in_a_grammar_streams_bytes_and_captures(model: Model) -> None:
    messages = [{"role": "user", "content": "Give me a capital letter"}]
    grammar = 'start: "I choose the letter " letter\nletter[capture]: /[AB]/\n'
    parts = [part async for part in model.chat_completion_streaming(messages, grammar, sampling=Sampling(seed=1))]
    text = b"".join(data for data, _ in parts).decode()
    assert re.fullmatch("I choose the letter [AB]", text)
    assert parts[-1][1] == {"letter": text[-1]}
    whole = (text, {"letter": text[-1]})
    assert await model.chat_completion(messages, grammar, sampling=Sampling(seed=1)) == whole
    assert model.chat_completion_sync(messages, grammar, sampling=Sampling(seed=1)) == whole


def test_logits_are_of_the_last_token_or_of_all_that_are_new(model: Model) -> None:
    ids = model.tokenizer("Once upon a time")["input_ids"]
    last = model.get_logits(ids)
    assert (last["n_tokens"], last["logits"].shape) == (len(ids), (1, model.vocab_size))
    new = model.get_logits([*ids, 5, 6], include_all_uncached_tokens=True)
    assert (new["n_tokens"], new["n_cached"]) == (len(ids) + 2, len(ids))
    prefixes = [ids, [*ids, 5], [*ids, 5, 6]]
    assert np.allclose(new["logits"], model.batch_next_token_logprobs_sync(prefixes), atol=1e-4)
    assert np.allclose(new["logits"][0], last["logits"][0], atol=1e-4)
    with pytest.raises(ValueError, match="must not be empty"):
        model.get_logits([])


async def test_a_run_that_is_left_leaves_no_task(model: Model) -> None:
    run = model.run("Now", max_tokens=50)
    async with aclosing(aiter(run)) as events:
        await anext(events)
    assert run.usage.total_latency_ms > 0


@pytest.mark.fault(70)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_is_injected_the_text_is_of_the_list(model: Model, own: WordList, data: st.DataObject) -> None:
    judge = recogniser(tuple(OWN), len(OWN), "en", punctuation="standard")
    words = st.lists(st.sampled_from(OWN[:8]), min_size=1, max_size=3).map(" ".join)

    def inject(context: StepContext) -> str | None:
        # After a whole word, other words.
        if context.number > 3 or not judge.is_text(context.text):
            return None
        return data.draw(st.sampled_from([" ", ", "])) + data.draw(words)

    seed = data.draw(st.integers(0, 99))
    try:
        run = model.run_sync(
            "Now",
            vocab=own,
            max_tokens=60,
            sampling=Sampling(seed=seed),
            step=Step(inject, every_k=data.draw(st.integers(1, 6))),
        )
    except RunError as error:
        # After the end of a sentence a word has a capital; so it is refused.
        assert "cannot be injected" in str(error)
        return
    assert judge.is_text(run.text), run.text
    assert_whole(run)
