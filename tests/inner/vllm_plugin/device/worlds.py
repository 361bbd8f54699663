"""Lists whose texts are followed by the kernels and by matchers, in a process where Triton interprets."""

import random
from collections import Counter
from functools import cache

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tests import harness
from tests.choices import TELLING_CHOICES
from tests.npm_tokenizers import SHA256, npm_tokenizer
from tests.random_lists import TELLING, RandomList
from tests.vocab.automaton.test_random_lists import accepted
from tests.vocab.toys import STOP, toy_speller, toy_tokenizer
from vocab.automaton.tokenizer import Speller
from vocab.errors import EmptyWordListError
from vocab.lists.wordlists import WordList, known_languages, load_word_list, unspaced_language
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges

TOKENIZERS = ("smollm2", "gemma", *SHA256)
LANGUAGES = [name for name in known_languages(None) if unspaced_language(name) is None]
"""Those with spaces."""


def follow_random_list(source: RandomList, num_texts: int, num_steps: int, device: str = "cpu") -> Counter[str]:
    """Follow texts of a list, with changes to it and places for half of them; nothing where it has none."""
    from tests.inner.vllm_plugin.device.walks import Walk

    draw, words = random.Random(source.seed), accepted(source.entries)
    if not words:
        return Counter()
    word_list = WordList(source.lang, words, "inline", source.ranks(len(words)))
    facts = toy_tokenizer([piece for piece in map(_text, source.pieces(words)) if piece])
    changes = NO_CHANGES
    if source.seed % 2:
        changes = ListChanges(extra_words=accepted(tuple(draw.choices(TELLING, k=3))), exclude_words=words[:1])
    try:
        states = ListStates.of(
            word_list,
            ListOptions(**source.choice),
            toy_speller(facts),
            max(1, word_list.num_ranks - source.num_beyond),
            changes,
            has_places=bool(source.seed % 4),
        )
    except EmptyWordListError:
        return Counter()
    if states.fewest_tokens() is None:
        return Counter()
    return Walk(states, (STOP, np.iinfo(np.int32).max), source.seed, device=device).run(num_texts, num_steps)


def _text(piece: bytes) -> str:
    return piece.decode(errors="ignore")


def follow_telling_list(seed: int, num_texts: int, num_steps: int, device: str = "cpu") -> Counter[str]:
    """Follow texts of a list whose words overlap."""
    from tests.inner.vllm_plugin.device.walks import Walk

    if seed % 2:
        # Where a budget ends with a word, nothing but a stop token may come: no token ends another.
        words, pieces = ["solar", "lunar", "lunes"], ["so", "lar", "lu", " lu"]
        options, changes = ListOptions(punctuation="none"), NO_CHANGES
    else:
        words = ["sol", "mar", "l'", "el", "a b", "a b c", "b c", "b", "c b a b"]
        pieces = ["sol", " mar", "ma", " a", " b", " b c", "a b", ". ", ", "]
        options = ListOptions(punctuation="full")
        changes = ListChanges(extra_words=("marsol", "a d", "solo"), exclude_words=("el",)) if seed % 4 else NO_CHANGES
    listed = WordList("fr", tuple(words), "inline")
    speller = toy_speller(toy_tokenizer(pieces))
    states = ListStates.of(listed, options, speller, 3 + 2 * seed, changes, has_places=not seed % 4)
    return Walk(states, (STOP,), seed, device=device).run(num_texts, num_steps)


def follow_real_list(
    language: str, tokenizer: str, num_texts: int, num_steps: int, device: str = "cpu"
) -> Counter[str]:
    """Follow texts of the first words of a language, in one of the tokenizers of other models; changed for every other.

    The languages differ in their options.
    """
    from tests.inner.vllm_plugin.device.walks import Walk

    speller, number = _speller(tokenizer), LANGUAGES.index(language)
    words = load_word_list(language, None).up_to(300)
    options = ListOptions(**TELLING_CHOICES[number % len(TELLING_CHOICES)])
    changes = (
        ListChanges(extra_words=("l'abc", "well-known"), exclude_words=words.words[:2]) if number % 2 else NO_CHANGES
    )
    states = ListStates.of(words, options, speller, 200, changes, has_places=True)
    stops = sorted(speller.facts.textless)[:2]
    return Walk(states, stops, number, device).run(num_texts, num_steps)


@cache
def _speller(tokenizer: str) -> Speller:
    if tokenizer == "smollm2":
        return Speller.from_tokenizer(AutoTokenizer.from_pretrained(harness.smollm2_path()))
    if tokenizer == "gemma":
        return Speller.from_tokenizer(AutoTokenizer.from_pretrained(harness.gemma_tokenizer_path()))
    return Speller.from_tokenizer(PreTrainedTokenizerFast(tokenizer_file=str(npm_tokenizer(tokenizer))))
