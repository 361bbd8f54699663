"""Beam search finds what transformers finds: the same texts with the same scores, on models with random weights.

Over an engine it expands all places of a step at once, and leaves nothing running behind it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.vocab.decoding.tiny_models import PROMPT, ListTexts, log_p_of, spelling_of, tiny_model
from tests.vocab.toys import STOP, toy_states
from vocab.decoding.beams import BeamRules, BeamSearch, FinishedBeam, search_beams
from vocab.decoding.generator import Expansion, Place
from vocab.errors import DeadEndError
from vocab.matching.states import ListStates

WORDS = ("de", "la", "que", "el", "en", "y", "a", "los", "se", "del", "las", "un", "por", "con", "no", "una", "su")
PIECES = (" de", " la", "que", " el", "en", " a", " lo", "s ", "De", "La", ", ", ". ", " un", "una ", "d", "e", " s")
KINDS = ("gpt2", "llama")
PLAIN = BeamRules(4, merge_equal_texts=False)


def texts_of(model: Any, *args: Any) -> ListTexts:
    return ListTexts(log_p_of(model), model.config.vocab_size, *args)


def search(texts: Any, rules: BeamRules, budget: int) -> tuple[FinishedBeam, ...]:
    running = BeamSearch(texts, rules, budget)
    while not running.is_over:
        running.take([texts.expansion(wish.place, wish.num_tokens, running.budget) for wish in running.wishes])
    assert running.wishes == ()
    return running.best(rules.num_beams)


def from_transformers(
    model: Any,
    rules: BeamRules,
    budget: int,
    end_tokens: Sequence[int],
    allowed_tokens: Callable[[int, torch.Tensor], list[int]] | None,
) -> list[tuple[tuple[int, ...], float]]:
    """Tokens and score of each text, best first; without the texts that never ended."""
    prompt = torch.tensor([PROMPT])
    found = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        num_beams=rules.num_beams,
        num_return_sequences=rules.num_beams,
        do_sample=False,
        max_new_tokens=budget,
        length_penalty=rules.length_penalty,
        early_stopping=rules.early_stopping,
        no_repeat_ngram_size=rules.no_repeat_ngram_size,
        prefix_allowed_tokens_fn=allowed_tokens,
        eos_token_id=list(end_tokens),
        pad_token_id=model.config.vocab_size - 1,
        output_scores=True,
        return_dict_in_generate=True,
    )
    texts = []
    for tokens, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True):
        kept = tokens[len(PROMPT) :]
        ends = [i for i, token in enumerate(kept) if token in end_tokens]
        if score > -1e8:
            texts.append((tuple(kept[: ends[0] + 1] if ends else kept), score))
    return texts


def assert_same(found: Sequence[FinishedBeam], expected: list[tuple[tuple[int, ...], float]]) -> None:
    assert [beam.continuation.tokens for beam in found] == [tokens for tokens, _ in expected]
    assert [beam.score for beam in found] == pytest.approx([score for _, score in expected], abs=1e-4)


def listed(n_words: int = len(WORDS)) -> tuple[ListStates, Callable[[tuple[int, ...]], str], int]:
    states, tokenizer = toy_states(WORDS, PIECES, n_words=n_words)
    # One token more than the automaton knows fills up what transformers returns.
    return states, spelling_of(tokenizer), len(tokenizer) + 1


def allowed_by(states: ListStates, texts: ListTexts, budget: int) -> Callable[[int, torch.Tensor], list[int]]:
    """The automaton as transformers asks for it: from the start again, for each beam and token."""

    def allowed_tokens(_batch: int, tokens: torch.Tensor) -> list[int]:
        state, left = states.start, budget
        for token in tokens.tolist()[len(PROMPT) :]:
            left -= 1
            state = states.target(state, token, left)
            if not state:  # a copy that fills up the beams, of which nothing comes
                return [STOP]
        return [int(token) for token in texts.allowed(state, left)]

    return allowed_tokens


RULES = [
    replace(PLAIN, num_beams=num_beams, length_penalty=length_penalty, early_stopping=early_stopping)
    for num_beams, length_penalty in ((2, 1.0), (4, 1.0), (4, 0.0), (5, 2.0), (4, -0.5), (10, 0.8))
    for early_stopping in (False, True, "never")
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small are slower with more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("rules", RULES, ids=lambda r: f"{r.num_beams}-{r.length_penalty}-{r.early_stopping}")
def test_texts_equal_those_of_transformers(rules: BeamRules) -> None:
    states, spell, num_tokens = listed()
    for seed, kind in enumerate(KINDS):
        model = tiny_model(kind, 40, seed)
        # With several end tokens, many texts end early and the rules of stopping are all met.
        for end_tokens in ((STOP,), (STOP, 7, 21)):
            texts = texts_of(model, None, str, end_tokens)
            assert_same(search(texts, rules, 14), from_transformers(model, rules, 14, end_tokens, None))
        model = tiny_model(kind, num_tokens, seed)
        texts = texts_of(model, states, spell)
        expected = from_transformers(model, rules, 12, [STOP], allowed_by(states, texts, 12))
        assert_same(search(texts, rules, 12), expected)


def test_runs_of_tokens_come_once_as_in_transformers_unless_nothing_else_may_come() -> None:
    for size, seed in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)):
        rules, model = replace(PLAIN, no_repeat_ngram_size=size), tiny_model("gpt2", 40, seed)
        found = search(texts_of(model, None, str), rules, 14)
        if size == 1:  # there transformers counts the prompt's own tokens too
            assert all(len(set(beam.continuation.tokens)) == len(beam.continuation.tokens) for beam in found)
        else:
            assert_same(found, from_transformers(model, rules, 14, [STOP], None))
    states, spell, num_tokens = listed(1)
    texts = texts_of(tiny_model("gpt2", num_tokens, 0), states, spell)
    for beam in search(texts, replace(PLAIN, no_repeat_ngram_size=1), 12):
        assert states.can_stop(beam.continuation.place.state or ())


def test_no_beam_dies_where_the_model_wants_only_what_is_not_listed() -> None:
    """The 500 tokens that the model likes best are all unlisted: no shortlist by p has an allowed token in it."""
    states, tokenizer = toy_states(WORDS, [*PIECES, *(f"<{i}>" for i in range(600))])
    disliked = [token for token, spelled in enumerate(tokenizer.token_bytes) if not spelled.startswith(b"<")] + [STOP]

    model = log_p_of(tiny_model("llama", len(tokenizer), 0))

    def log_p(tokens: tuple[int, ...]) -> torch.Tensor:
        logits = model(tokens)
        logits[disliked] -= 80.0
        return torch.log_softmax(logits, dim=-1)

    texts = ListTexts(log_p, len(tokenizer), states, spelling_of(tokenizer))
    found = search(texts, PLAIN, 12)
    assert len(found) == 4
    for beam in found:
        assert states.can_stop(beam.continuation.place.state or ())
        assert max(beam.continuation.log_p) < -50
        for end, own in enumerate(beam.continuation.log_p):
            assert (log_p(beam.continuation.tokens[:end]) > own).sum() >= 500


class _Table:
    """Texts over letters, with log p given by a table of what may come after what; "." ends a text."""

    def __init__(self, log_p: dict[str, dict[str, float]], pieces: str | list[str]) -> None:
        self._log_p, self._pieces = log_p, list(pieces)
        self.start = Place((), (0,))
        self.end_tokens = frozenset({self._pieces.index(".")})

    def expansion(self, place: Place, num_tokens: int, _budget: int) -> Expansion:
        # Where the text comes by other tokens, the table may say something else of it.
        spelled = "|".join(self._pieces[token] for token in place.tokens)
        nexts = self._log_p.get(spelled, {})
        best = sorted(nexts.items(), key=lambda item: -item[1])[:num_tokens]
        return Expansion(
            tuple(self._pieces.index(piece) for piece, _ in best), tuple(p for _, p in best), spelled, -0.5
        )

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place:
        assert token not in self.end_tokens
        return Place((*place.tokens, token), (len(self.text((*place.tokens, token))),), source)

    def text(self, tokens: tuple[int, ...]) -> str:
        return "".join(self._pieces[token] for token in tokens)

    def search(self, rules: BeamRules, budget: int) -> list[tuple[str, Any]]:
        return [(beam.continuation.text, beam.score) for beam in search(self, rules, budget)]


PIECES_OF_TWO_WAYS = ["a", "b", "ab", "c", "bc", "."]
TWO_WAYS = {
    "": {"ab": -1.0, "a": -1.5, "c": -4.0},
    "ab": {"c": -1.0, ".": -3.0},
    "a": {"bc": -0.3, "b": -2.0},
    "c": {".": -1.0},
    "ab|c": {".": -0.1},
    "a|bc": {".": -0.1},
    "a|b": {".": -1.0},
}


def test_equal_texts_count_once_in_one_state_and_finished_ones_by_score_whenever_they_came() -> None:
    table = _Table(TWO_WAYS, PIECES_OF_TWO_WAYS)
    both = table.search(BeamRules(2, 0.0, "never", merge_equal_texts=False), 6)
    assert [text for text, _ in both] == ["abc", "abc"]
    once = table.search(BeamRules(2, 0.0, "never"), 6)
    # The other place goes to another text: "ab", by the way that was still among the best.
    assert once == [("abc", pytest.approx(-1.9)), ("ab", pytest.approx(-4.5))]
    found = table.search(BeamRules(4, 0.0, "never"), 6)
    assert found == [("abc", pytest.approx(-1.9)), ("ab", pytest.approx(-4.0)), ("c", pytest.approx(-5.0))]
    # Ranked by log p per token to the second power, the later spelling of "ab" is the better one.
    found = table.search(BeamRules(4, 2.0, "never"), 6)
    assert dict(found)["ab"] == pytest.approx(-4.5 / 9)


def test_at_the_end_of_the_budget_an_ended_and_a_cut_text_that_are_equal_count_once() -> None:
    table = _Table({"": {"a": -0.1}, "a": {".": -1.0, "": -2.0, "b": -3.0}}, ["a", "b", "", "."])
    assert [text for text, _ in table.search(BeamRules(3), 2)] == ["a", "ab"]
    assert [text for text, _ in table.search(BeamRules(3, merge_equal_texts=False), 2)] == ["a", "a", "ab"]


def test_texts_that_end_inside_different_characters_are_not_equal() -> None:
    class Cut(_Table):
        def text(self, tokens: tuple[int, ...]) -> str:
            return super().text(tokens).replace("b", "\ufffd").replace("c", "\ufffd")

    table = Cut({"": {"b": -1.0, "c": -1.5}, "b": {"a": -1.0}, "c": {"a": -0.1}}, ["a", "b", "c", "."])
    # They are not merged on the way; where both stayed unread to the end, they read the same and count once.
    assert table.search(BeamRules(2), 2) == [("\ufffda", pytest.approx(-0.8))]


def test_fewer_texts_than_beams_are_all_found_and_none_is_an_error() -> None:
    table = _Table({"": {"a": -1.0, "c": -2.0}, "a": {".": -0.5}, "c": {".": -0.5}}, ["a", "c", "."])
    assert [text for text, _ in table.search(BeamRules(8), 5)] == ["a", "c"]
    with pytest.raises(DeadEndError, match="after 1 tokens"):
        _Table({"": {"a": -1.0}}, ["a", "."]).search(BeamRules(2), 5)
    table = _Table({"": {"a": -1.0, ".": -2.0}}, ["a", "."])
    assert [text for text, _ in table.search(BeamRules(2), 5)] == [""]


def test_a_found_text_has_what_each_token_cost() -> None:
    best = search(_Table(TWO_WAYS, PIECES_OF_TWO_WAYS), BeamRules(2, early_stopping=True), 6)[0].continuation
    assert (best.text, best.finish, best.stop_reason) == ("abc", "stop", None)
    assert best.log_p == (-1.5, -0.3, -0.1)
    assert best.log_mass == (-0.5, -0.5, -0.5)
    assert best.log_weight == (0.0, 0.0, 0.0)
    assert best.place.source == "a|bc"


class Engine(ListTexts):
    """Digits, of which 0 is the likeliest everywhere; each expansion waits until so many of its step run together.

    At the text ``fails_at`` it fails.
    """

    def __init__(self, num_together: int, fails_at: tuple[int, ...] | None = None) -> None:
        log_p = -torch.arange(10.0)
        super().__init__(lambda tokens: log_p, 10, None, lambda tokens: "".join(map(str, tokens)), end_tokens=(9,))
        self.num_running = self.num_cancelled = 0
        self.asked: list[tuple[Place, int, int]] = []
        self._together, self._fails_at = asyncio.Barrier(num_together), fails_at

    async def expand(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        self.asked.append((place, num_tokens, budget))
        if place.tokens == self._fails_at:
            raise RuntimeError("the engine failed")
        self.num_running += 1
        try:
            await (self._together.wait() if place.tokens else asyncio.sleep(0))
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        finally:
            self.num_running -= 1
        return replace(self.expansion(place, num_tokens, budget), source=f"after {place.tokens}")


async def test_the_places_of_a_step_are_expanded_together() -> None:
    generator: Any = Engine(num_together=3)
    found = await asyncio.wait_for(search_beams(generator, BeamRules(3), 4, num_texts=2), 60)
    assert [beam.continuation.text for beam in found] == ["0000", "0001"]
    assert [(len(place.tokens), number, budget) for place, number, budget in generator.asked] == [
        (0, 6, 4), *[(1, 6, 3)] * 3, *[(2, 6, 2)] * 3, *[(3, 6, 1)] * 3
    ]  # fmt: skip
    assert generator.asked[1][0].source == "after ()"


async def test_a_failing_expansion_ends_the_others_and_is_the_error_and_a_cancelled_search_ends_all() -> None:
    generator: Any = Engine(num_together=99, fails_at=(2,))
    with pytest.raises(RuntimeError, match="the engine failed"):
        await search_beams(generator, BeamRules(3), 4)
    assert (generator.num_running, generator.num_cancelled) == (0, 2)
    generator = Engine(num_together=99)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(search_beams(generator, BeamRules(4), 4), 0.5)
    assert (generator.num_running, generator.num_cancelled) == (0, 4)
