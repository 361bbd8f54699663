"""Words that are taken back, over models whose probabilities are written down or random."""

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vocab.toys import STOP, toy_speller, toy_tokenizer, word_list
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.retry import MAX_TRIES, Draw, Ending, Retry, letter_tokens
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.options import ListOptions

Chances = Mapping[str, float]
"""Of the tokens after a text; the model gives the rest to nothing."""

NUM_REFUSED = 4


@dataclass
class Engine:
    """Draws the tokens of one text as an engine does, and takes them back as ``Retry`` says.

    Attributes:
        model: p of the tokens after a text.
        asked: The texts after which a token was drawn.
    """

    facts: TokenizerFacts
    states: ListStates
    model: Callable[[str], Chances]
    share: float = 0.05
    budget: int = 20
    max_lost: int | None = None
    wanted: Collection[int] = ()
    has_ending: bool = False
    draw: Callable[[Sequence[tuple[str, float]]], str] = lambda ranked: ranked[0][0]
    asked: list[str] = field(default_factory=list)

    def write(self) -> tuple[str, Retry]:
        """Return the text; what is settled is never taken back, and every mask leaves something."""
        matcher = Matcher(self.states, {STOP}, self.budget)
        max_lost = self.budget if self.max_lost is None else self.max_lost
        ending = Ending(matcher, self.budget) if self.has_ending else None
        retry = Retry(matcher, letter_tokens(self.facts), self.share, max_lost, self.wanted, ending)
        tokens, settled, budget = list[int](), 0, self.budget
        while len(tokens) < budget and not matcher.is_terminated:
            draw = self._draw(matcher, retry, self._text(tokens))
            num_open = retry.take_back(draw)
            if num_open is not None:
                del tokens[len(tokens) - num_open :]
                assert len(tokens) >= settled, "a word was taken back that was settled"
                assert matcher.num_tokens == len(tokens)
                if retry.num_left:
                    budget = len(tokens) + retry.num_left
                continue
            tokens.append(draw.token)
            assert matcher.accept_token(draw.token)
            retry.advance(draw)
            settled = len(tokens) - retry.num_open
        assert len(self.asked) == len(tokens) + retry.num_tokens
        assert matcher.is_terminated or matcher.can_stop()
        return self._text(tokens), retry

    def _draw(self, matcher: Matcher, retry: Retry, text: str) -> Draw:
        self.asked.append(text)
        chances = {self._token(piece): p for piece, p in self.model(text).items()}
        mask = np.zeros((self.states.words.num_tokens + 31) // 32, dtype=np.int32)
        matcher.fill_bitmask(mask)
        retry.restrict(mask)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()
        assert allowed, "nothing may be drawn"
        given = {token: chances.get(token, 1e-6) for token in allowed}
        refused = sorted(((t, p) for t, p in chances.items() if t not in given), key=lambda one: -one[1])
        ranked = sorted(((self._text([t]) or "<end>", p) for t, p in given.items()), key=lambda one: -one[1])
        token = self._token(self.draw(ranked))
        top = sorted(((self._token(piece), p) for piece, p in ranked), key=lambda one: -one[1])[:NUM_REFUSED]
        return Draw(token, math.log(given[token]), math.log(sum(given.values())), refused[:NUM_REFUSED], top)

    def _token(self, piece: str) -> int:
        return (
            STOP
            if piece == "<end>"
            else len(self.facts.token_bytes) - 1 - self._reversed.index(piece.encode("latin-1"))
        )

    @property
    def _reversed(self) -> list[bytes]:
        # Of single bytes, which the tokenizer has besides, the piece is meant.
        return list(reversed(self.facts.token_bytes))

    def _text(self, tokens: Sequence[int]) -> str:
        return b"".join(self.facts.token_bytes[token] for token in tokens).decode("latin-1")


WORDS = ("the", "doctor", "document", "cat", "sat", "cats", "do")
PIECES = (
    *("the", " the", " doct", "or", " doc", "ument", "cat", " cat", " sat", "s", " do", "ch", " x"),
    *(".", ",", '"', ' "', " (", ")"),
)


def engine(model: Mapping[str, Chances], words: Sequence[str] = WORDS, **fields: object) -> Engine:
    """An engine whose model gives what the longest ending of a text names, and elsewhere the end of a sentence."""
    facts = toy_tokenizer(PIECES)
    states = ListStates.of(word_list(words), ListOptions(punctuation="full"), toy_speller(facts), len(words))

    def of(text: str) -> Chances:
        endings = [ending for ending in model if text.endswith(ending) and bool(ending) == bool(text)]
        return model[max(endings, key=len)] if endings else {".": 0.9, "<end>": 0.05}

    return Engine(facts, states, of, **fields)  # type: ignore[arg-type]


DOCTORS = "the doctor sat."

DOCTOR: Mapping[str, Chances] = {
    "": {"the": 0.9},
    "the": {" doct": 0.6, " cat": 0.3, "<end>": 0.01},
    # It means "doctrine".
    " doct": {"r": 0.97, "or": 0.02},
    " doctor": {" sat": 0.9},
    " cat": {" sat": 0.9},
    " sat": {".": 0.9},
    ".": {"<end>": 0.9},
}


@pytest.mark.parametrize(
    ("changed", "expected", "num_words"),
    [
        pytest.param({}, "the cat sat.", 1, id="a word that was not meant is drawn anew"),
        pytest.param({" doct": {"r": 0.8, "or": 0.2}}, "the doctor sat.", 0, id="enough of it was meant"),
        pytest.param({"the": {" doct": 0.6, ".": 0.3}}, "the.", 1, id="a mark instead"),
        pytest.param({"the": {" doct": 0.6, "<end>": 0.3}}, "the", 1, id="the end instead"),
        pytest.param({"the": {" doct": 0.6, " cat": 0.005}}, "the doctor sat.", 1, id="nothing likelier instead"),
        pytest.param(
            {"the": {" cat": 0.9, " do": 0.05}, " cat": {" doc": 0.01, "x": 0.98}},
            "the do.", 1, id="a whole word whose longer form is not listed",
        ),
        pytest.param(
            {"the": {" cat": 0.9, " do": 0.05}, " cat": {" sat": 0.01} | dict.fromkeys("abcdefghijklmnop", 0.061)},
            "the do.", 1, id="a whole word with many longer forms, each of which is unlikely",
        ),
        pytest.param(
            {"the": {" cat": 0.9, " do": 0.05}, " cat": {" sat": 0.01, "'": 0.98}},
            "the do.", 1, id="a whole word before an apostrophe",
        ),
        pytest.param(
            {"the": {" cat": 0.9, " do": 0.05}, " cat": {" sat": 0.01, " x": 0.98}},
            "the cat sat.", 0, id="a whole word before one that is not listed",
        ),
        pytest.param({" sat": {"#": 0.97, ".": 0.01}}, "the cat sat.", 1, id="a mark that is not listed"),
    ],
)  # fmt: skip
def test_a_word_is_taken_back_where_the_model_meant_another(
    changed: Mapping[str, Chances], expected: str, num_words: int
) -> None:
    text, retry = engine({**DOCTOR, **changed}).write()
    assert (text, retry.num_words) == (expected, num_words)


def test_another_beginning_leaves_no_word_open() -> None:
    """Though the model thinks " doc" the likeliest by far, and it was not tried."""
    text, retry = engine({**DOCTOR, "the": {" doct": 0.6, " doc": 0.3, " cat": 0.05}}).write()
    assert (text, retry.num_words, retry.num_tokens) == ("the cat sat.", 1, 2)


def test_a_word_is_tried_so_often_and_then_the_best_try_stays() -> None:
    letters = "abcdefgh"
    words = ["the", *(f"{one}{one}{two}" for one in letters for two in "xy")]
    facts = toy_tokenizer(["the", *(f" {one}{one}" for one in letters), *(f"{one}x" for one in letters), "."])
    whole = [f"{one}{one}" for one in letters]
    states = ListStates.of(word_list([*words, *whole]), ListOptions(punctuation="full"), toy_speller(facts), 99)

    def model(text: str) -> Chances:
        if text == "":
            return {"the": 0.9}
        if text == "the":
            return {f" {one}{one}": 0.2 - 0.01 * place for place, one in enumerate(letters)}
        # All go on with letters that are not listed, the third a little less surely.
        return {"q": 0.96, ".": 0.04} if text.endswith("cc") else {"q": 0.99, ".": 0.01}

    one = Engine(facts, states, model, budget=40)
    text, retry = one.write()
    assert text.startswith("the cc.")
    assert one.asked[:8] == ["", "the", "the aa", "the", "the bb", "the", "the cc", "the"]
    assert retry.num_words == MAX_TRIES + 1
    # Each time the word and what was drawn after it.
    assert retry.num_tokens == 2 * (MAX_TRIES + 1)


@pytest.mark.parametrize(("budget", "expected"), [(3, "the cat sat"), (2, "the cat")])
def test_near_the_end_of_the_budget_words_are_taken_back_too(budget: int, expected: str) -> None:
    assert engine(DOCTOR, budget=budget).write()[0] == expected


@pytest.mark.parametrize(("asked", "expected"), [(" doct", DOCTORS), ("or", DOCTORS), (" cat", "the cat sat.")])
def test_a_word_that_a_clients_bias_asks_for_stays(asked: str, expected: str) -> None:
    doctor = engine(DOCTOR)
    assert replace(doctor, wanted=[doctor._token(asked)]).write()[0] == expected


@pytest.mark.parametrize(
    ("max_lost", "expected"), [(0, "the doctor sat."), (1, "the doctor sat."), (2, "the cat sat.")]
)
def test_no_more_tokens_are_lost_than_may_be(max_lost: int, expected: str) -> None:
    text, retry = engine(DOCTOR, max_lost=max_lost).write()
    assert text == expected
    assert retry.num_tokens <= max_lost


SENTENCE = ListOptions(punctuation="standard", end="sentence")

STORY: Mapping[str, Chances] = {
    "": {"the": 0.9},
    "the": {" cat": 0.9, ".": 0.01},
    " cat": {" sat": 0.8, ".": 0.19},
    " sat": {" the": 0.9, ".": 0.05},
    " the": {" cat": 0.9, ".": 0.01},
    ".": {" the": 0.9, "<end>": 0.05},
}


def write_story(changed: Mapping[str, Chances], budget: int, *, has_ending: bool = True) -> str:
    one = engine({**STORY, **changed}, share=0, budget=budget, has_ending=has_ending)
    one.states = ListStates.of(word_list(WORDS), SENTENCE, toy_speller(one.facts), len(WORDS))
    return one.write()[0]


@pytest.mark.parametrize(
    ("budget", "expected", "without"),
    [
        # Sixteen tokens before the end an end has to be likely, and four before it not very.
        (10, "the cat sat the cat sat the cat.", "the cat sat the cat sat the cat sat."),
        (9, "the cat sat the cat sat.", "the cat sat the cat sat the cat."),
        (8, "the cat sat the cat sat.", "the cat sat the cat sat the."),
    ],
)
def test_a_sentence_ends_where_the_model_gives_an_end_some_chance(budget: int, expected: str, without: str) -> None:
    assert write_story({}, budget, has_ending=False) == without
    assert write_story({}, budget) == expected


@pytest.mark.parametrize(("budget", "num_sentences"), [(16, 4), (18, 4), (19, 4), (102, 25)])
def test_a_text_ends_with_a_sentence_after_which_no_other_would_fit(budget: int, num_sentences: int) -> None:
    """One takes four tokens."""
    text = write_story({" cat": {" sat": 0.99}, " sat": {".": 0.9}}, budget)
    assert text == " ".join(["the cat sat."] * num_sentences)


SPEECH: Mapping[str, Chances] = {
    "": {'"': 0.9},
    '"': {"the": 0.9},
    "the": {" cat": 0.9},
    " cat": {" sat": 0.99, ".": 0.005},
    " sat": {".": 0.9},
    ".": {" the": 0.9, '"': 0.05},
    '."': {"<end>": 0.9},
}


@pytest.mark.parametrize(
    ("changed", "budget", "expected", "without"),
    [
        ({}, 12, '"the cat sat. the cat sat."', '"the cat sat. the cat sat. the."'),
        ({}, 13, '"the cat sat. the cat sat."', '"the cat sat. the cat sat. the cat."'),
        # Too early for the last one, and then there is room for another.
        ({}, 14, '"the cat sat. the cat sat. the cat sat."', '"the cat sat. the cat sat. the cat sat."'),
        # One that closes by itself, as the model has it.
        ({".": {'"': 0.9}}, 7, '"the cat sat."', '"the cat sat."'),
    ],
)  # fmt: skip
def test_what_is_said_ends_with_a_sentence_after_which_no_other_would_fit(
    changed: Mapping[str, Chances], budget: int, expected: str, without: str
) -> None:
    assert write_story({**SPEECH, **changed}, budget, has_ending=False) == without
    assert write_story({**SPEECH, **changed}, budget) == expected


@pytest.mark.parametrize("mark", ['"', ")"])
def test_a_mark_that_closes_inside_a_sentence_ends_none(mark: str) -> None:
    """Though a single token would then."""
    opening = {'"': ' "', ")": " ("}[mark]
    story = {"": {"the": 0.9}, "the": {opening: 0.9}, opening: {"cat": 0.9}, "cat": {mark: 0.9}, mark: {" sat": 0.9}}
    assert write_story({**story, " sat": {".": 0.9}}, 6) == f"the{opening}cat{mark} sat."


def test_a_text_that_the_model_ends_ends_there() -> None:
    changed: Mapping[str, Chances] = {" sat": {".": 0.9}, ".": {"<end>": 0.9}}
    assert write_story(changed, 5) == "the cat sat."


@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 0.5), budget=st.integers(2, 40), has_ending=st.booleans())
def test_any_text_is_listed_and_ends_and_loses_no_more_than_it_may(
    seed: int, share: float, budget: int, has_ending: bool
) -> None:
    source = random.Random(seed)
    pieces = list(dict.fromkeys([*PIECES, "a", " a", "b", " b", ",", " "]))
    facts = toy_tokenizer(pieces)
    words = [w for w in dict.fromkeys([*WORDS, "a", "ab", "b", "ba", "catch"]) if source.random() < 0.8] or ["a"]
    options = SENTENCE if has_ending else ListOptions(punctuation="full")
    states = ListStates.of(word_list(words), options, toy_speller(facts), len(words))

    def model(text: str) -> Chances:
        own = random.Random(f"{seed} {text}")
        weights = {piece: own.random() ** 6 for piece in (*pieces, "<end>")}
        total = sum(weights.values())
        return {piece: weight / total for piece, weight in weights.items()}

    def draw(ranked: Sequence[tuple[str, float]]) -> str:
        pieces, weights = zip(*ranked, strict=True)
        found: str = source.choices(pieces, weights)[0]
        return found

    budget = max(budget, states.fewest_tokens() or 0)
    _, retry = Engine(facts, states, model, share, budget, has_ending=has_ending, draw=draw).write()
    assert retry.num_tokens <= budget + 2


@given(seed=st.integers(0, 10**6))
def test_tokens_that_leave_a_word_open_are_those_after_which_it_cannot_end(seed: int) -> None:
    source = random.Random(seed)
    words = ["".join(source.choices("abc", k=source.randint(1, 4))) for _ in range(source.randint(1, 12))]
    facts = toy_tokenizer(["a", " a", "ab", " ab", "bc", " bc", ".", " c"])
    options = ListOptions(punctuation="full", case=source.choice(["any", "sentence"]))
    states = ListStates.of(word_list(words), options, toy_speller(facts), len(words))
    state = states.start
    for _ in range(source.randint(0, 6)):
        mask = np.zeros((states.words.num_tokens + 31) // 32, dtype=np.int32)
        states.fill(mask, state, -1)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()
        states.keep_whole_words(mask, state, np.asarray([STOP], dtype=np.int32))
        kept = set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())
        targets = {token: states.target(state, token, -1) for token in allowed}
        whole = {t for t, after in targets.items() if any(one < 0 for one in after) or states.ends_word(after)}
        assert kept == whole
        if not allowed:
            break
        state = targets[source.choice(allowed)]


def test_the_share_of_open_beginnings_is_that_of_the_tokens_after_a_word() -> None:
    facts = toy_tokenizer([" cat", " dog", " do", " th", "e"])
    states = ListStates.of(word_list(["cat", "dog", "do", "the"]), SENTENCE, toy_speller(facts), 4)
    after = states.target(states.start, facts.token_bytes.index(b"c"), -1)
    for letter in (b"a", b"t"):
        after = states.target(after, facts.token_bytes.index(letter), -1)
    mask = np.zeros((states.words.num_tokens + 31) // 32, dtype=np.int32)
    states.fill(mask, after, -1)
    allowed = set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())
    begins = {facts.token_bytes[token] for token in allowed}
    assert {b" cat", b" dog", b" do", b" th"} <= begins
    targets = [states.target(after, token, -1) for token in allowed]
    num_open = sum(not any(one < 0 for one in to) and not states.ends_word(to) for to in targets)
    assert num_open == 1
    # Another word may be followed by a token more.
    assert states.open_share == pytest.approx(num_open / len(allowed), abs=0.01)


def test_letters_are_what_goes_on_with_a_word() -> None:
    facts = TokenizerFacts.from_token_bytes(
        [b"", b"a", b" a", b".", "é".encode(), "é".encode()[1:], "—".encode(), b"1", b"'", "’s".encode()]
    )
    assert letter_tokens(facts).tolist() == [False, True, False, False, True, True, False, False, True, True]
