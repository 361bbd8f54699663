"""Small tokenizers and walks for tests of the automaton."""

from collections.abc import Iterable, Sequence

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.automaton.automaton import TokenAutomaton, compile_automaton
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.lists.wordlists import WordList
from vocab.matching.masks import MaskRows
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.options import ListOptions

STOP = 0


def toy_tokenizer(pieces: Iterable[str], *, lacking: bytes = b"") -> TokenizerFacts:
    """A stop token, all single bytes but those lacking, and the pieces."""
    singles = [bytes([byte]) for byte in range(256) if byte not in lacking]
    return TokenizerFacts.from_token_bytes([b"<stop>", *singles, *(piece.encode() for piece in pieces)], [STOP])


def word_list(words: Sequence[str], lang: str = "es") -> WordList:
    return WordList(lang, tuple(words), "file")


def toy_automaton(
    words: Sequence[str], pieces: Iterable[str] = (), *, lang: str = "es", options: ListOptions | None = None
) -> tuple[TokenAutomaton, TokenizerFacts]:
    tokenizer = toy_tokenizer(pieces)
    return compile_automaton(word_list(words, lang), options or ListOptions(), tokenizer), tokenizer


def matcher_of(automaton: TokenAutomaton, n_words: int, max_tokens: int | None = None) -> Matcher:
    return Matcher(ListStates(automaton, MaskRows(automaton), n_words), [STOP], max_tokens)


def allowed_tokens(matcher: Matcher, num_tokens: int) -> set[int]:
    row = np.full((num_tokens + 31) // 32, -1, dtype=np.int32)
    matcher.fill_bitmask(row)
    return tokens_of(row)


def tokens_of(row: Int32Array) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def can_spell(matcher: Matcher, tokenizer: TokenizerFacts, text: str) -> bool:
    """Feeds a text byte by byte and takes it back; whether it may be written and end there."""
    ids = {token: i for i, token in enumerate(tokenizer.token_bytes)}
    before = matcher.num_tokens
    accepted = all(matcher.accept_token(ids[bytes([byte])]) for byte in text.encode())
    complete = accepted and matcher.can_stop()
    matcher.rollback(matcher.num_tokens - before)
    return complete
