"""Texts drawn from the masks of every built-in list, read by the judges that know nothing of the library."""

import random
from typing import Literal

import pytest

from tests.checker import assert_only_listed_words
from tests.segmented_oracle import SegmentedOracle
from tests.small_tokenizer import STOP, small_speller
from tests.vocab.toys import allowed_tokens
from vocab.lists.wordlists import known_languages, load_word_list, reference_dictionary
from vocab.matching.list_kinds import states_of
from vocab.matching.matcher import Matcher
from vocab.options import ListOptions

N_WORDS = 1_000
NUM_TEXTS = 30
SLOW = ("ko", "th")
"""What takes long is to compile them."""
OPTIONS = ListOptions(punctuation="standard", end="sentence")


@pytest.mark.parametrize(
    "lang",
    [
        pytest.param(lang, marks=(pytest.mark.slow, pytest.mark.parallel) if lang in SLOW else ())
        for lang in known_languages(None)
    ],
)
def test_texts_that_masks_allow_have_listed_words_alone(lang: str) -> None:
    word_list = load_word_list(lang, None).up_to(N_WORDS)
    speller = small_speller(word_list.words[:300])
    states = states_of(word_list, OPTIONS, speller, N_WORDS)
    dictionary = frozenset(reference_dictionary(lang) if word_list.is_unspaced else ())
    for seed in range(NUM_TEXTS):
        draw = random.Random(seed)
        matcher, tokens = Matcher(states, [STOP], draw.randint(20, 120)), []
        while STOP not in tokens:
            tokens.append(draw.choice(sorted(allowed_tokens(matcher, len(speller.facts)))))
            matcher.accept_token(tokens[-1])
        text = b"".join(speller.facts.token_bytes[token] for token in tokens).decode()
        if word_list.is_unspaced:
            oracle = SegmentedOracle(lang, dictionary, frozenset(word_list.words), end="sentence")
            assert oracle.is_text(text), text
        else:
            # The judge of line breaks knows no Greek question mark.
            layout: Literal["lines", "prose"] = "lines" if lang == "el" else "prose"
            assert_only_listed_words(text, lang, N_WORDS, punctuation="standard", end="sentence", layout=layout)
