"""Going back out of corners, over a writer whose probabilities are written down."""

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.decoding.generator import Place
from vocab.decoding.rescue import MAX_BARRED, Sampling, Step, rescue_words

END, STOP, BLANK = ".", "<end>", " "

Chances = Mapping[str, float]
"""Of the tokens that are allowed after a text; what is missing to 1 is the model's wish for others."""


@dataclass
class Writer:
    """Writes the likeliest tokens; each is a number, its text in ``pieces``.

    Attributes:
        chances: Of what may follow a text.
        asked: The text and the budget of each call.
        num_written: Tokens in all calls.
        bound_from: Texts of so many tokens are bound by their budget.
    """

    chances: Callable[[str], Chances]
    asked: list[tuple[str, int]] = field(default_factory=list)
    num_written: int = 0
    num_open: int = 0
    bound_from: int = 10**6
    pieces: list[str] = field(default_factory=list)

    @property
    def start(self) -> Place:
        return Place()

    def text(self, tokens: tuple[int, ...]) -> str:
        return "".join(self.pieces[token] for token in tokens)

    async def write(self, place: Place, budget: int, *, index: int = 0) -> AsyncGenerator[Step, None]:
        self.asked.append((self.text(place.tokens), budget))
        source = f"call {len(self.asked)} of text {index}"
        self.num_open += 1
        try:
            for left in range(budget, 0, -1):
                chances = self.chances(self.text(place.tokens))
                ranked = sorted(chances, key=lambda piece: -chances[piece])
                self.pieces += [piece for piece in ranked if piece not in self.pieces]
                likeliest = tuple((self.pieces.index(piece), math.log(chances[piece])) for piece in ranked)
                begun = Step(0, place, Place(source=source), 0.0, math.log(sum(chances.values())), likeliest)
                step = self.instead(begun, *likeliest[0], left)
                self.num_written += 1
                yield step
                place = step.place
                if step.finish is not None:
                    return
        finally:
            self.num_open -= 1

    def instead(self, step: Step, token: int, log_p: float, budget: int) -> Step:
        piece = self.pieces[token]
        in_word = piece[-1].isalpha()
        return replace(
            step,
            token=token,
            place=Place((*step.start.tokens, token), None, step.place.source),
            log_p=log_p,
            in_word=in_word,
            begins_word=in_word and piece.startswith(BLANK),
            is_bound=len(step.start.tokens) >= self.bound_from,
            finish="stop" if piece == STOP else "length" if budget == 1 else None,
        )


def table(chances: Mapping[str, Chances]) -> Callable[[str], Chances]:
    """What may follow texts that end so; the longest ending counts, and elsewhere a sentence ends."""

    def of(text: str) -> Chances:
        endings = [ending for ending in chances if text.endswith(ending) and bool(ending) == bool(text)]
        return chances[max(endings, key=len)] if endings else {END: 0.9, STOP: 0.05}

    return of


async def written(writer: Writer, budget: int = 20, share: float = 0.15) -> str:
    """The text; what is settled is never taken back, and nothing is left open."""
    random, tokens = np.random.default_rng(0), list[int]()
    async for steps in rescue_words(
        writer, budget, share=share, sampling=Sampling(temperature=0.0), random=random, index=3
    ):
        assert steps and all(
            step.start.tokens == (*tokens, *(one.token for one in steps[:place])) for place, step in enumerate(steps)
        )
        tokens += [step.token for step in steps]
    assert writer.num_open == 0
    assert len(tokens) <= budget
    return writer.text(tuple(tokens))


DOCTOR = {
    "": {" the": 0.9},
    " the": {" doct": 0.6, " cat": 0.3},
    " doct": {"or": 0.05},
    " doctor": {" sat": 0.9},
    " cat": {" sat": 0.9},
    " sat": {END: 0.9},
    END: {STOP: 0.9},
}


@pytest.mark.parametrize(
    ("changed", "expected", "num_calls"),
    [
        pytest.param({}, " the cat sat.<end>", 2, id="a word whose rest is hardly listed is written again"),
        pytest.param({" doct": {"or": 0.2}}, " the doctor sat.<end>", 1, id="a text without corners stays"),
        pytest.param(
            {" doct": {"or": 0.8}, " doctor": {" sat": 0.1}}, " the cat sat.<end>", 2, id="back to the word's start"
        ),
        pytest.param({" doct": {END: 0.9}, END: {STOP: 0.01}}, " the doct.<end>", 1, id="marks are no corners"),
        pytest.param({" the": {" doct": 0.6, END: 0.3}}, " the.<end>", 2, id="the other beginning may be a mark"),
        pytest.param({" the": {" doct": 0.6, STOP: 0.3}}, " the<end>", 1, id="or the end"),
        pytest.param({" the": {" doct": 0.6, " cat": 0.02}}, " the doctor sat.<end>", 1, id="none that is less likely"),
    ],
)
async def test_a_word_is_written_again_where_its_rest_is_hardly_listed(
    changed: Mapping[str, Chances], expected: str, num_calls: int
) -> None:
    writer = Writer(table({**DOCTOR, **changed}))
    assert await written(writer) == expected
    assert writer.asked == [("", 20), (" the cat" if "cat" in expected else " the.", 18)][:num_calls]


async def test_where_the_budget_takes_tokens_away_there_is_no_corner() -> None:
    assert await written(Writer(table(DOCTOR), bound_from=2)) == " the doctor sat.<end>"


@pytest.mark.parametrize(
    ("left", "text", "asked"),
    [
        ({" a": 0.01, " b": 0.1, " c": 0.01, " d": 0.01}, " b sat.", ["", " b", " c", " d", " b"]),
        # At most four are barred.
        ({f" {name}": 0.01 for name in "abcdefgh"}, " a sat.", ["", " b", " c", " d", " e", " a"]),
    ],
)
async def test_where_all_beginnings_lead_into_corners_the_likeliest_text_stays(
    left: dict[str, float], text: str, asked: list[str]
) -> None:
    beginnings = {one: 0.4 - 0.01 * place for place, one in enumerate(left)}
    writer = Writer(table({"": beginnings, **{one: {" sat": chance} for one, chance in left.items()}}))
    assert (await written(writer)).startswith(text)
    assert [before for before, _ in writer.asked] == asked
    assert len(asked) <= 1 + MAX_BARRED + 1


@pytest.mark.parametrize("budget", [2, 3, 12, 30, 31, 60])
async def test_as_many_tokens_are_lost_as_a_text_may_have_where_every_word_is_a_corner(budget: int) -> None:
    beginnings = {f" {name}": 0.2 - 0.001 * place for place, name in enumerate("abcde")}
    inside = {beginning: {"y": 0.9} for beginning in beginnings}
    writer = Writer(table({"": beginnings, **inside, "y": {"z": 0.01}, "z": beginnings}))
    await written(writer, budget)
    # Each time the two tokens of the open word, and the one that came with the mask after them.
    assert 3 * (len(writer.asked) - 1) == budget // 3 * 3
    assert writer.num_written <= 2 * budget


async def test_the_engine_keeps_its_latest_work_and_closing_the_text_stops_it() -> None:
    writer = Writer(table(DOCTOR))

    def rescued() -> AsyncGenerator[list[Step], None]:
        return rescue_words(writer, 20, share=0.15, sampling=Sampling(), random=np.random.default_rng(0), index=3)

    sources = [step.place.source async for steps in rescued() for step in steps]
    assert sources == ["call 1 of text 3"] * 2 + ["call 2 of text 3"] * 3
    begun = rescued()
    await anext(begun)
    assert writer.num_open == 1
    await begun.aclose()
    assert writer.num_open == 0


@given(
    chances=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=8),
    top_k=st.integers(-1, 9),
    top_p=st.floats(0.01, 1.0),
    min_p=st.floats(0.0, 1.0),
    temperature=st.floats(0.1, 2.0),
    seed=st.integers(0, 100),
)
def test_a_token_is_drawn_from_those_that_the_engine_would_leave(
    chances: list[float], top_k: int, top_p: float, min_p: float, temperature: float, seed: int
) -> None:
    ranked = sorted(chances, reverse=True)
    tokens = [(token, math.log(chance)) for token, chance in enumerate(ranked)]
    token, log_p = Sampling(temperature, top_p, top_k, min_p).draw(tokens, np.random.default_rng(seed))
    assert (token, log_p) == tokens[token]
    weights = [chance ** (1 / temperature) for chance in ranked]
    assert weights[token] >= min_p * weights[0] * (1 - 1e-9)
    assert top_k <= 0 or token < top_k
    kept = [weight for weight in weights[: top_k if top_k > 0 else None] if weight >= min_p * weights[0] * (1 - 1e-9)]
    assert sum(kept[:token]) / sum(kept) < top_p * (1 + 1e-9) or token == 0


def test_at_temperature_0_the_likeliest_is_taken() -> None:
    assert Sampling(temperature=0.0).draw([(7, -1.0), (3, -1.1)], np.random.default_rng(0)) == (7, -1.0)
