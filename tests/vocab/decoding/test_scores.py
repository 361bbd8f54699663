import math

import pytest

from vocab.decoding.generator import Continuation, Place
from vocab.decoding.select import TextScore, distinct_ngram_share, ngrams_of, repeated_ngram_share, words_of


def part(log_p: tuple[float, ...], log_mass: tuple[float, ...], log_weight: tuple[float, ...]) -> Continuation:
    tokens = tuple(range(len(log_p)))
    return Continuation(tokens, "", log_p, log_mass, log_weight, "stop", None, Place(tokens))


def test_the_score_of_a_text_is_the_sum_over_its_parts() -> None:
    score = TextScore.of(part((-1.0, -2.0), (-0.5, -0.25), (-0.5, 0.25)), part((-3.0,), (-1.0,), (-2.0,)))
    assert score == TextScore(-6.0, -1.75, -2.25, 3)
    assert score.log_p_per_token == -2.0


def test_the_empty_text_has_no_score_per_token_character_or_word() -> None:
    score = TextScore.of()
    assert score == TextScore()
    assert score.log_p_per_token == -math.inf
    assert score.bits_per_char("") is None
    assert score.log_mass_per_word(0) is None


def test_bits_are_counted_per_character_and_mass_per_word() -> None:
    score = TextScore(log_p=-4 * math.log(2), log_mass=-3.0, num_tokens=2)
    assert score.bits_per_char("áé n") == pytest.approx(1.0)
    assert score.log_mass_per_word(2) == 1.5


def test_words_stand_between_blanks_and_marks() -> None:
    assert words_of("¿Qué? «El sol», — dijo. Don’t go - well-known:\n\nSol—mar…") == (
        ["qué", "el", "sol", "dijo", "don’t", "go", "well-known", "sol", "mar"]
    )


def test_combining_marks_are_part_of_their_word() -> None:
    assert words_of("हिन्दी। भाषा") == ["हिन्दी", "भाषा"]


def test_runs_of_words_go_over_sentence_ends() -> None:
    assert ngrams_of(["a", "b", "c"], 2) == [("a", "b"), ("b", "c")]
    assert ngrams_of(["a"], 2) == []


def test_a_text_that_repeats_itself_has_fewer_distinct_runs_than_runs() -> None:
    text = "The sun is big. The sun is big."
    assert repeated_ngram_share(text) == pytest.approx(1 / 5)
    assert distinct_ngram_share(text) == pytest.approx(4 / 7)


def test_a_text_too_short_for_a_run_repeats_nothing() -> None:
    assert repeated_ngram_share("The sun is") == 0.0
    assert distinct_ngram_share("") == 1.0
