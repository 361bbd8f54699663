import math

import numpy as np
import pytest

from vocab.decoding.select import (
    MAX_REPEATED_SHARE,
    ScoredText,
    TextScore,
    choose_text,
    distinct_ngram_share,
    draw_by_weight,
    draw_probabilities,
    excess_repetition,
    random_source,
    rank_by_likelihood,
    words_of,
)

LOOP = "the sun is here and the sun is here and the sun is here"
FRESH = "a small dog runs to the old house in the wood at night"


def text(words: str, log_p: float, num_tokens: int = 10, log_weight: float = 0.0) -> ScoredText:
    return ScoredText(words, TextScore(log_p=log_p, log_weight=log_weight, num_tokens=num_tokens))


def test_the_likeliest_text_per_token_comes_first() -> None:
    assert rank_by_likelihood([text("a", -20.0), text("b", -18.0, 6), text("c", -15.0)]) == [2, 0, 1]


def test_a_text_that_loops_ranks_after_all_others_however_likely() -> None:
    assert rank_by_likelihood([text(LOOP, -1.0), text(FRESH, -30.0), text("b", -40.0)]) == [1, 2, 0]


def test_of_texts_that_all_loop_the_one_that_does_it_least_comes_first() -> None:
    worse = " ".join([LOOP] * 3)
    assert rank_by_likelihood([text(worse, -1.0), text(LOOP, -30.0)]) == [1, 0]


def test_the_guard_does_not_mind_a_share_of_repeated_words_up_to_its_bound() -> None:
    # 20 runs of 4 words, of which one came before.
    words = [f"w{i}" for i in range(19)]
    at_the_bound = " ".join([*words, *words[:4]])
    assert excess_repetition(at_the_bound) == 0.0
    shorter = " ".join([*words[:18], *words[:4]])
    assert excess_repetition(shorter) == pytest.approx(1 / 19)
    assert MAX_REPEATED_SHARE < 1 / 19


def test_a_text_without_tokens_is_the_least_likely() -> None:
    assert rank_by_likelihood([text("", 0.0, 0), text("b", -400.0)]) == [1, 0]


def test_equal_texts_keep_their_order() -> None:
    assert rank_by_likelihood([text("a", -1.0)] * 3) == [0, 1, 2]


def test_weights_become_probabilities_at_any_scale() -> None:
    weights = [math.log(1.0), math.log(3.0)]
    assert draw_probabilities(weights) == pytest.approx([0.25, 0.75])
    assert draw_probabilities([weight - 5000 for weight in weights]) == pytest.approx([0.25, 0.75])
    assert draw_probabilities([-math.inf, -3.0]) == [0.0, 1.0]


def test_without_any_weight_all_are_drawn_alike() -> None:
    assert draw_probabilities([-math.inf] * 4) == [0.25] * 4


def test_a_weight_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="NaN"):
        draw_by_weight([math.nan, 0.0], 1, random_source(0))


def test_draws_follow_their_probabilities() -> None:
    random, weights = random_source(1), [math.log(weight) for weight in (1.0, 2.0, 5.0)]
    counts = np.bincount([draw_by_weight(weights, 1, random)[0] for _ in range(4000)], minlength=3)
    # Five standard deviations of the share of a draw with probability 1/2.
    np.testing.assert_allclose(counts / 4000, draw_probabilities(weights), atol=5 * 0.5 / math.sqrt(4000))


def test_nothing_is_drawn_twice() -> None:
    assert sorted(draw_by_weight([0.0, -2000.0, -math.inf, 1.0], 9, random_source(0))) == [0, 1, 2, 3]


def test_a_second_draw_is_by_the_weights_that_are_left() -> None:
    random = random_source(2)
    drawn = [draw_by_weight([0.0, 0.0, math.log(2.0)], 2, random) for _ in range(4000)]
    pairs = {pair: drawn.count(list(pair)) / 4000 for pair in ((0, 1), (0, 2), (2, 0))}
    expected = {(0, 1): 1 / 4 * 1 / 3, (0, 2): 1 / 4 * 2 / 3, (2, 0): 1 / 2 * 1 / 2}
    assert pairs == pytest.approx(expected, abs=5 * 0.5 / math.sqrt(4000))


def test_a_seed_repeats_the_draws_and_no_seed_does_not() -> None:
    weights = [0.0] * 16
    assert draw_by_weight(weights, 16, random_source(-7)) == draw_by_weight(weights, 16, random_source(-7))
    assert draw_by_weight(weights, 16, random_source(None)) != draw_by_weight(weights, 16, random_source(None))


def test_the_texts_are_chosen_as_asked_for() -> None:
    texts = [text(FRESH, -10.0, log_weight=-math.inf), text("b", -20.0), text(LOOP, -5.0, log_weight=-math.inf)]
    assert choose_text("likelihood", texts) == [0]
    assert choose_text("likelihood", texts, 2) == [0, 1]
    assert choose_text("posterior", texts) == [1]
    assert choose_text("posterior", texts, 2, random_source(0))[0] == 1


def test_equal_texts_are_taken_after_all_others() -> None:
    texts = [text("a b", -1), text("a b", -2), text("c d", -3), text("a b", -4), text("e f", -5)]
    assert choose_text("likelihood", texts, 4) == [0, 2, 4, 1]
    assert choose_text("likelihood", texts, 9) == [0, 2, 4, 1, 3]
    for seed in range(20):
        drawn = choose_text("posterior", texts, 9, random_source(seed))
        assert sorted(drawn) == [0, 1, 2, 3, 4]
        assert len({texts[index].text for index in drawn[:3]}) == 3


def test_equal_texts_are_drawn_by_the_sum_of_their_weights() -> None:
    texts = [text("a b", -1), text("a b", -2), text("c d", -3)]
    random = random_source(0)
    share = sum(texts[choose_text("posterior", texts, 1, random)[0]].text == "a b" for _ in range(3000)) / 3000
    assert share == pytest.approx(2 / 3, abs=0.03)


def test_texts_without_blanks_between_words_loop_by_their_characters() -> None:
    assert words_of("我们，去「学校」。") == list("我们去学校")
    assert words_of("กา ขา") == ["ก", "า", "ข", "า"]
    for loop, fresh in (
        ("我们今天去学校。" * 4, "春眠不觉晓处处闻啼鸟夜来风雨声花落知多少床前明月光"),
        ("ここは学校です。" * 4, "いろはにほへとちりぬるをわかよたれそつねならむうゐのおくやま"),
        ("เขากินข้าวที่บ้านแล้ว" * 4, "กขคงจฉชซญดตถทธนบปผพฟมยรลวศสหอฮะาิีุู"),
    ):
        assert excess_repetition(loop) > 0.3 > excess_repetition(fresh)
        assert distinct_ngram_share(loop) < 0.5 < distinct_ngram_share(fresh)
    # Four words in a row, not four characters, came before.
    assert excess_repetition("我们今天去学校看书，他们今天去公园玩。") == 0.0
