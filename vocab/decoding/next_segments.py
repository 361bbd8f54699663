"""The likeliest next words of a text without spaces, by the model's own probabilities.

The next word is what a longest match cuts off the text that follows, so its probability is that of all tokens after
which it is known: those that spell it and a character that no longer word goes on with. Beginnings are looked at best
first, and of the tokens after one only the likeliest; what is less likely is missing from the sums.
"""

import heapq
from codecs import getincrementaldecoder
from collections.abc import Sequence
from typing import Final

import numpy as np

from vocab.decoding.next_words import NextWord, Row, Tokens
from vocab.marks import BLANK
from vocab.text.segmented.segmenter import ListSegments

_MAX_TOKENS: Final = 1_000
"""After one beginning. The others have a hundredth of the probability, and each costs some microseconds."""


class NextSegmentSearch:
    """One search for the likeliest next words; rows are asked for by ``prefixes`` and given by ``add``.

    ``top`` words are looked for with at most ``max_rows`` rows, by the words of ``segments``.
    """

    def __init__(self, segments: ListSegments, token_bytes: Sequence[bytes], *, top: int, max_rows: int) -> None:
        self._segments = segments
        self._token_bytes = token_bytes
        self._top = top
        self._rows_left = max_rows
        self._open: list[tuple[float, Tokens]] = [(0.0, ())]
        # Of the beginnings that were asked for last.
        self._log_p: dict[Tokens, float] = {}
        self._found: dict[str, float] = {}

    def prefixes(self, most: int) -> list[Tokens]:
        """Return the token prefixes whose rows are needed next, ``most`` at once; none at the end."""
        least = -np.inf
        if len(self._found) >= self._top:
            least = heapq.nlargest(self._top, self._found.values())[-1]
        chosen: list[Tokens] = []
        self._log_p.clear()
        while self._open and len(chosen) < min(most, self._rows_left) and -self._open[0][0] > least:
            log_p, prefix = heapq.heappop(self._open)
            self._log_p[prefix] = -log_p
            chosen.append(prefix)
        self._rows_left -= len(chosen)
        return chosen

    def add(self, prefix: Tokens, row: Row) -> None:
        """Take a prefix's row, float32 (V,) log-probabilities: add to the words that are known then."""
        row = row[: len(self._token_bytes)]
        spelled = b"".join(self._token_bytes[token] for token in prefix)
        num = min(_MAX_TOKENS, len(row))
        for token in np.argpartition(-row, num - 1)[:num].tolist():
            log_p = self._log_p[prefix] + float(row[token])
            piece = self._token_bytes[token]
            try:
                text, is_broken = _decoded(spelled + piece)
            except UnicodeDecodeError:
                continue
            text = text.removeprefix(BLANK)
            # Nothing follows a token without a text.
            if piece and (is_broken or text) and self._may_go_on(text):
                heapq.heappush(self._open, (-log_p, (*prefix, token)))
                continue
            word = text[: self._segments.dictionary.longest_at(text, 0)]
            if word in self._segments.words:
                self._found[word] = float(np.logaddexp(self._found.get(word, -np.inf), log_p))

    @property
    def words(self) -> list[NextWord]:
        """Return the likeliest words found, best first: those that no other word can be likelier than."""
        likeliest = heapq.nsmallest(self._top, self._found.items(), key=lambda item: (-item[1], item[0]))
        bound = -self._open[0][0] if self._open else -np.inf
        return [NextWord(text, log_p) for text, log_p in likeliest if log_p >= bound]

    def _may_go_on(self, text: str) -> bool:
        """Return whether another word may begin with a text, and so it is not known where the first one ends."""
        return not text or self._segments.dictionary.has_longer(text)


def _decoded(spelled: bytes) -> tuple[str, bool]:
    """Return the whole characters of some bytes, and whether they break off inside one."""
    decoder = getincrementaldecoder("utf-8")()
    return decoder.decode(spelled), bool(decoder.getstate()[0])
