"""Small tokenizers and walks for tests of the automaton."""

from collections.abc import Iterable, Sequence

import numpy as np

from vocab.arrays.kernels import Int32Array
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.overlay import Overlay
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.matching.text_states import State, TextStates
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges

STOP = 0
FULL = ListOptions(punctuation="full")


def toy_tokenizer(pieces: Iterable[str], *, lacking: bytes = b"") -> TokenizerFacts:
    """A stop token, all single bytes but those lacking, and the pieces."""
    singles = [bytes([byte]) for byte in range(256) if byte not in lacking]
    return TokenizerFacts.from_token_bytes([b"<stop>", *singles, *(piece.encode() for piece in pieces)], [STOP])


def toy_speller(facts: TokenizerFacts) -> Speller:
    """A tokenizer that takes the longest token at each place; where there is none, the stop token."""
    token_of = {spelled: token for token, spelled in enumerate(facts.token_bytes) if spelled}
    longest = max(map(len, token_of), default=0)

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [list(_greedy(text.encode(), token_of, longest)) for text in texts]

    return Speller(encode, facts, "the longest token first")


def _greedy(spelled: bytes, token_of: dict[bytes, int], longest: int) -> Iterable[int]:
    place = 0
    while place < len(spelled):
        size = next((n for n in range(longest, 0, -1) if spelled[place : place + n] in token_of), 0)
        yield token_of[spelled[place : place + size]] if size else STOP
        place += size or 1


def word_list(words: Sequence[str], lang: str = "es") -> WordList:
    return WordList(lang, tuple(words), "file")


def toy_states(
    words: Sequence[str],
    pieces: Iterable[str] = (),
    *,
    n_words: int | None = None,
    lang: str = "es",
    options: ListOptions = FULL,
    changes: ListChanges = NO_CHANGES,
    has_places: bool = False,
) -> tuple[ListStates, TokenizerFacts]:
    """The states of a list, all of which counts if ``n_words`` does not say otherwise; and the tokenizer."""
    facts = toy_tokenizer(pieces)
    listed = word_list(words, lang)
    speller, n_words = toy_speller(facts), n_words or listed.num_ranks
    return ListStates.of(listed, options, speller, n_words, changes, has_places=has_places), facts


def toy_words(words: Sequence[str], pieces: Iterable[str] = (), lang: str = "es") -> CompiledList:
    """A list as an artefact has it."""
    return build_words(word_list(words, lang), toy_speller(toy_tokenizer(pieces)))


def states_of(
    words: CompiledList,
    facts: TokenizerFacts,
    n_words: int | None = None,
    *,
    overlay: Overlay | None = None,
    options: ListOptions = FULL,
) -> ListStates:
    """The states of a list that came from a file."""
    frame = frame_for(words, overlay, options, FrameTokens.of(facts))
    return ListStates(words, frame, n_words or words.listed.num_ranks, overlay)


def matcher_of(states: ListStates, max_tokens: int | None = None) -> Matcher:
    return Matcher(states, [STOP], max_tokens)


def allowed_tokens(matcher: Matcher, num_tokens: int) -> set[int]:
    row = np.full((num_tokens + 31) // 32, -1, dtype=np.int32)
    matcher.fill_bitmask(row)
    return tokens_of(row)


def tokens_of(row: Int32Array) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def reads(states: TextStates, facts: TokenizerFacts, text: str, budget: int = -1) -> tuple[bool, bool]:
    """Whether some tokens that may come spell a text, as the beginning of a text and as a whole one."""
    spelled = text.encode()
    reached: list[set[State]] = [set() for _ in range(len(spelled) + 1)]
    reached[0].add(states.start)
    for place, here in enumerate(reached[:-1]):
        for token, piece in enumerate(facts.token_bytes) if here else ():
            if piece and spelled.startswith(piece, place):
                targets = {states.target(state, token, budget) for state in here}
                reached[place + len(piece)] |= targets - {()}
    return bool(reached[-1]), any(map(states.can_stop, reached[-1]))


def can_spell(states: TextStates, facts: TokenizerFacts, text: str) -> bool:
    """Whether some tokens that may come spell a text, after which the text may end."""
    return reads(states, facts, text)[1]
