"""Scores of texts, the choice among them, and the searches that draw what they choose from."""

import asyncio
import math
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.vocab.decoding.toy_generator import ToyGenerator
from vocab.decoding.generator import Continuation, Finish, Place
from vocab.decoding.select import (
    ScoredText,
    Select,
    TextScore,
    choose_candidates,
    choose_text,
    distinct_ngram_share,
    draw_probabilities,
    excess_repetition,
    ngrams_of,
    random_source,
    repeated_ngram_share,
    search_sentences,
    words_of,
)
from vocab.options import ListOptions

LOOP = "the sun is here and the sun is here and the sun is here"
FRESH = "a small dog runs to the old house in the wood at night"
HEAVY, LIGHT = 0.0, -1000.0


def draw(
    text: str, finish: Finish = "stop", *, num_tokens: int = 2, log_p: float = -1.0, log_weight: float = 0.0
) -> Continuation:
    """A continuation of so many tokens, each with these logarithms; where it leads to is the generator's to say."""
    log_ps, log_masses, log_weights = ((value,) * num_tokens for value in (log_p, -0.5, log_weight))
    return Continuation(tuple(range(num_tokens)), text, log_ps, log_masses, log_weights, finish, None, Place())


@dataclass(frozen=True)
class Asked:
    """One call of ``sample``."""

    place: Place
    budget: int
    to_sentence_end: bool
    index: int


@dataclass
class Script:
    """Of a generator, what these searches call: it gives the draws of one step after the other.

    Attributes:
        steps: The draws of each step; an error is raised, and None never comes.
        lacking: Of each draw, how many words it lacks that have to occur; by its index.
        num_open: How many calls are under way.
    """

    steps: Sequence[Sequence[Continuation | Exception | None]]
    lacking: Sequence[int] = ()
    asked: list[Asked] = field(default_factory=list)
    num_open: int = 0
    start: Place = field(default_factory=lambda: Place((), (0,)))

    async def sample(self, place: Place, budget: int, *, to_sentence_end: bool = False, index: int = 0) -> Continuation:
        self.asked.append(Asked(place, budget, to_sentence_end, index))
        drawn = [each for step in self.steps for each in step][index]
        self.num_open += 1
        try:
            await (asyncio.Event().wait() if drawn is None else asyncio.sleep(0))
        finally:
            self.num_open -= 1
        if not isinstance(drawn, Continuation):
            raise drawn or AssertionError
        tokens = (*place.tokens, *(100 * index + token for token in drawn.tokens))
        return replace(drawn, place=Place(tokens, (index,), f"draw {index}"))

    def num_missing(self, place: Place) -> int:
        return self.lacking[place.tokens[0] // 100] if self.lacking else 0


async def chosen_texts(script: Script, num_chosen: int, **options: Any) -> list[str]:
    generator: Any = script
    num_drawn = len(script.steps[0])
    chosen = await choose_candidates(generator, 9, num_candidates=num_drawn, num_chosen=num_chosen, **options)
    return [each.text for each in chosen]


async def parts_of(script: Script, budget: int = 20, select: Select = "posterior") -> list[Continuation]:
    generator: Any = script
    width = len(script.steps[0])
    return [part async for part in search_sentences(generator, budget, width=width, select=select, seed=0)]


async def ends_of(script: Script, **options: Any) -> list[tuple[str, Finish]]:
    return [(part.text, part.finish) for part in await parts_of(script, **options)]


# Scores.


def test_the_score_of_a_text_is_the_sum_over_its_parts() -> None:
    parts = [
        Continuation((0,) * len(log_p), "", log_p, log_mass, log_weight, "stop", None, Place())
        for log_p, log_mass, log_weight in (
            ((-1.0, -2.0), (-0.5, -0.25), (-0.5, 0.25)),
            ((-3.0,), (-1.0,), (-2.0,)),
        )
    ]
    score = TextScore.of(*parts)
    assert score == TextScore(-6.0, -1.75, -2.25, 3)
    assert score.log_p_per_token == -2.0
    score = TextScore(log_p=-4 * math.log(2), log_mass=-3.0, num_tokens=2)
    assert score.bits_per_char("áé n") == pytest.approx(1.0)
    assert score.log_mass_per_word(2) == 1.5
    nothing = TextScore.of()
    assert nothing == TextScore()
    assert nothing.log_p_per_token == -math.inf
    assert nothing.bits_per_char("") is nothing.log_mass_per_word(0) is None


def test_words_stand_between_blanks_and_marks() -> None:
    for text, words in (
        ("¿Qué? «El sol», — dijo. Don’t go - well-known:\n\nSol—mar…", "qué el sol dijo don’t go well-known sol mar"),
        ("हिन्दी। भाषा", "हिन्दी भाषा"),
        ("我们，去「学校」。", "我 们 去 学 校"),
        ("กา ขา", "ก า ข า"),
    ):
        assert words_of(text) == words.split()


def test_a_text_that_repeats_itself_has_fewer_distinct_runs_than_runs() -> None:
    assert (ngrams_of(["a", "b", "c"], 2), ngrams_of(["a"], 2)) == ([("a", "b"), ("b", "c")], [])
    text = "The sun is big. The sun is big."
    assert repeated_ngram_share(text) == pytest.approx(1 / 5)
    assert distinct_ngram_share(text) == pytest.approx(4 / 7)
    assert (repeated_ngram_share("The sun is"), distinct_ngram_share("")) == (0.0, 1.0)


def test_texts_without_blanks_between_words_loop_by_their_characters() -> None:
    for loop, fresh in (
        ("我们今天去学校。" * 4, "春眠不觉晓处处闻啼鸟夜来风雨声花落知多少床前明月光"),
        ("ここは学校です。" * 4, "いろはにほへとちりぬるをわかよたれそつねならむうゐのおくやま"),
        ("เขากินข้าวที่บ้านแล้ว" * 4, "กขคงจฉชซญดตถทธนบปผพฟมยรลวศสหอฮะาิีุู"),
    ):
        assert excess_repetition(loop) > 0.3 > excess_repetition(fresh)
        assert distinct_ngram_share(loop) < 0.5 < distinct_ngram_share(fresh)
    # Four words in a row, not four characters, came before.
    assert excess_repetition("我们今天去学校看书，他们今天去公园玩。") == 0.0


# The choice.


def text(words: str, log_p: float, num_tokens: int = 10, log_weight: float = 0.0) -> ScoredText:
    return ScoredText(words, TextScore(log_p=log_p, log_weight=log_weight, num_tokens=num_tokens))


def test_by_likelihood_texts_come_in_this_order() -> None:
    worse = " ".join([LOOP] * 3)
    # 20 and 19 runs of 4 words, of which one came before.
    words = [f"w{i}" for i in range(19)]
    at_bound, beyond = " ".join([*words, *words[:4]]), " ".join([*words[:18], *words[:4]])
    for why, texts, order in (
        ("by log p per token", [text("a", -20.0), text("b", -18.0, 6), text("c", -15.0)], [2, 0, 1]),
        ("loops come last", [text(LOOP, -1.0), text(FRESH, -30.0), text("b", -40.0)], [1, 2, 0]),
        ("of loops the least first", [text(worse, -1.0), text(LOOP, -30.0)], [1, 0]),
        ("a share of repeated words is no loop", [text(FRESH, -2.0), text(at_bound, -1.0)], [1, 0]),
        ("a larger one is", [text(FRESH, -2.0), text(beyond, -1.0)], [0, 1]),
        ("no tokens are the least likely", [text("", 0.0, 0), text("b", -400.0)], [1, 0]),
        ("equals keep their order", [text("a", -1.0), text("b", -1.0), text("c", -1.0)], [0, 1, 2]),
        ("equal texts after all others", [text(one, -i) for i, one in enumerate("aacae", 1)], [0, 2, 4, 1, 3]),
        ("missing words come first", [replace(text("a", -1.0), num_missing=1), text(LOOP, -9.0)], [1, 0]),
    ):
        for num_chosen in range(1, 7):
            assert choose_text("likelihood", texts, num_chosen) == order[:num_chosen], why


def test_weights_become_probabilities_at_any_scale() -> None:
    weights = [math.log(1.0), math.log(3.0)]
    assert draw_probabilities(weights) == pytest.approx([0.25, 0.75])
    assert draw_probabilities([weight - 5000 for weight in weights]) == pytest.approx([0.25, 0.75])
    assert draw_probabilities([-math.inf, -3.0]) == [0.0, 1.0]
    assert draw_probabilities([-math.inf] * 4) == [0.25] * 4
    with pytest.raises(ValueError, match="NaN"):
        choose_text("posterior", [text("a", -1, log_weight=math.nan), text("b", -1)])


def test_by_posterior_a_second_draw_is_by_the_weights_that_are_left() -> None:
    random, texts = random_source(2), [text(one, -1, log_weight=math.log(1 + (one == "c"))) for one in "abc"]
    drawn = [tuple(choose_text("posterior", texts, 2, random)) for _ in range(4000)]
    pairs = {pair: drawn.count(pair) / 4000 for pair in ((0, 1), (0, 2), (2, 0))}
    expected = {(0, 1): 1 / 4 * 1 / 3, (0, 2): 1 / 4 * 2 / 3, (2, 0): 1 / 2 * 1 / 2}
    # Five standard deviations of the share of a draw with probability 1/2.
    assert pairs == pytest.approx(expected, abs=5 * 0.5 / math.sqrt(4000))


def test_by_posterior_texts_are_drawn_by_weight_and_equal_ones_by_the_sum_of_theirs() -> None:
    texts = [text(FRESH, -10.0, log_weight=-math.inf), text("b", -20.0), text(LOOP, -5.0, log_weight=-math.inf)]
    assert choose_text("posterior", texts) == [1]
    texts = [text(one, -1) for one in ("a", "a", "c", "a", "e")]
    for seed in range(20):
        drawn = choose_text("posterior", texts, 9, random_source(seed))
        assert sorted(drawn) == [0, 1, 2, 3, 4]
        assert len({texts[index].text for index in drawn[:3]}) == 3
    random, texts = random_source(0), texts[:3]
    share = sum(texts[choose_text("posterior", texts, 1, random)[0]].text == "a" for _ in range(3000)) / 3000
    assert share == pytest.approx(2 / 3, abs=0.03)


# Whole texts.


async def test_candidates_are_drawn_with_an_index_each_and_chosen_best_first() -> None:
    script = Script([[draw("a", log_p=-3.0), draw(LOOP, log_p=-0.1), draw("b"), draw("c", log_p=-2.0)]])
    assert await chosen_texts(script, 2) == ["b", "c"]
    assert script.asked == [Asked(script.start, 9, False, index) for index in range(4)]
    drawn = [draw("a", log_p=-1.0), draw("b", log_p=-9.0), draw("c", log_p=-5.0)]
    assert await chosen_texts(Script([drawn], lacking=(2, 0, 1)), 3) == ["b", "c", "a"]


async def test_by_posterior_candidates_are_drawn_by_weight_none_twice_and_again_with_a_seed() -> None:
    drawn = [draw("a", log_weight=-500.0), draw("b"), draw("c", log_weight=-1000.0)]
    assert await chosen_texts(Script([drawn]), 3, select="posterior", seed=0) == ["b", "a", "c"]
    drawn = [draw(str(i)) for i in range(16)]
    for seed in (11, -7):
        first, second = [await chosen_texts(Script([drawn]), 8, select="posterior", seed=seed) for _ in range(2)]
        assert first == second
    first, second = [await chosen_texts(Script([drawn]), 16, select="posterior") for _ in range(2)]
    assert first != second


# Sentence by sentence.


async def test_each_step_goes_on_from_the_chosen_part_until_the_text_ends() -> None:
    script = Script(
        [
            [draw("No.", "sentence", log_weight=LIGHT), draw("Yes.", "sentence", num_tokens=3, log_weight=HEAVY)],
            [draw(" And so on.", "sentence", log_weight=HEAVY), draw("", "stop", num_tokens=1, log_weight=LIGHT)],
            [draw(" No", "length", log_weight=LIGHT), draw("", "stop", num_tokens=1, log_weight=HEAVY)],
        ]
    )
    assert await ends_of(script) == [("Yes.", "sentence"), (" And so on.", "sentence"), ("", "stop")]
    second, third = Place((100, 101, 102), (1,), "draw 1"), Place((100, 101, 102, 200, 201), (2,), "draw 2")
    assert script.asked == [
        *(Asked(script.start, 20, True, index) for index in (0, 1)),
        *(Asked(second, 17, True, index) for index in (2, 3)),
        *(Asked(third, 15, True, index) for index in (4, 5)),
    ]


async def test_a_text_ends_by_length_with_its_budget_or_where_a_part_has_no_tokens() -> None:
    sentence = draw("A.", "sentence", num_tokens=4)
    for last, budget, expected in (
        (draw(" B", "length", num_tokens=16), 20, [("A.", "sentence"), (" B", "length")]),
        (draw("", "sentence", num_tokens=0), 20, [("A.", "sentence"), ("", "length")]),
        (None, 4, [("A.", "length")]),
    ):
        assert await ends_of(Script([[sentence] * 2, [last] * 2]), budget=budget) == expected


async def test_by_likelihood_parts_are_judged_with_the_text_that_they_go_on() -> None:
    sentence = "the sun is here again."
    loop = [
        [draw(sentence, "sentence", log_p=-0.1), draw("A dog.", "sentence", log_p=-3.0)],
        [draw(" " + sentence, "sentence", log_p=-0.1), draw(" A dog.", "sentence", log_p=-3.0)],
        [draw("", "stop", num_tokens=1)] * 2,
    ]
    # Ending is likely for its one token, but leaves the text as unlikely as it was.
    unlikely = [
        [draw("A dog.", "sentence", num_tokens=6, log_p=-2.0)] * 2,
        [draw("", "stop", num_tokens=1, log_p=-0.9), draw(" It runs.", "stop", num_tokens=6, log_p=-1.0)],
    ]
    for steps, expected in ((loop, [sentence, " A dog.", ""]), (unlikely, ["A dog.", " It runs."])):
        assert [part.text for part in await parts_of(Script(steps), select="likelihood")] == expected


async def test_parts_come_as_soon_as_they_are_chosen_and_a_client_that_leaves_or_an_error_cancels_all_draws() -> None:
    first: list[Continuation | Exception | None] = [draw("A.", "sentence")] * 2
    generator: Any = Script([first, [None, None]])
    async with aclosing(search_sentences(generator, 20, width=2)) as parts:
        assert (await anext(parts)).text == "A."
        assert len(generator.asked) == 2
    for script in (Script([first, [None, None]]), Script([first, [None, OSError("gone")]])):
        with pytest.raises((TimeoutError, OSError)) as raised:
            await asyncio.wait_for(parts_of(script), 0.5)
        assert str(raised.value) == ("gone" if script.steps[1][1] else "")
        assert (len(script.asked), script.num_open) == (4, 0)
    script = Script([[draw("a"), None, None]])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(chosen_texts(script, 1), 0.5)
    assert (len(script.asked), script.num_open) == (3, 0)


@pytest.mark.parametrize("select", ["likelihood", "posterior"])
@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5, 7, 12, 40])
async def test_texts_of_a_list_keep_to_it_and_to_their_budget(select: Select, budget: int) -> None:
    toy = ToyGenerator(
        ["sol", "mar"],
        ["sol", " mar", "mar", "so", "l", ".", ". ", "el"],
        options=ListOptions(case="listed", punctuation="full"),
    )
    for seed in range(20):
        toy.seed = seed
        parts = [part async for part in search_sentences(toy, budget, width=3, select=select, seed=seed)]
        tokens = tuple(token for part in parts for token in part.tokens)
        assert 0 < len(tokens) <= budget
        assert {part.finish for part in parts[:-1]} <= {"sentence"}
        assert parts[-1].finish == ("stop" if tokens[-1] in toy.end_tokens else "length")
        place = parts[-1].place
        assert (place.tokens, toy.text(tokens)) == (tokens, "".join(part.text for part in parts))
        assert place.state is not None
        assert toy.states.can_stop(place.state)
