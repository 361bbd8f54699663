import math

from deployments.search.request import AnswerCost
from vocab.decoding.select import TextScore


def test_the_price_is_told_per_word_and_per_character() -> None:
    cost = AnswerCost(TextScore(log_p=-8 * math.log(2), log_mass=-1.0, num_tokens=4), 12)
    assert cost.block("the cat.", 2) == {"log_mass_per_word": 0.5, "bits_per_char": 1.0, "generated_tokens": 12}


def test_figures_have_four_digits() -> None:
    cost = AnswerCost(TextScore(log_p=-1.0, log_mass=-1 / 3), 1)
    assert cost.block("abc", 1) == {"log_mass_per_word": 0.3333, "bits_per_char": 0.4809, "generated_tokens": 1}


def test_an_empty_text_has_no_price() -> None:
    assert AnswerCost(TextScore(log_p=-1.0), 3).block("", 0) == {
        "log_mass_per_word": None,
        "bits_per_char": None,
        "generated_tokens": 3,
    }
