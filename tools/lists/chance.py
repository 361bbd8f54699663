"""Find words that the longest match would rather cut out of other words than find.

With the rare word "てい" in the dictionary, "ている" is cut into "てい" and "る", not into "て" and "いる". How often a
word's letters are another word and the start of a third by chance is the product of their shares; a word that is much
rarer than that is better left out of the dictionary, and its parts stand for themselves.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

_MAX_PREFIX: Final = 12


def cut_by_chance(share: Mapping[str, float], ratio: float, is_candidate: Callable[[str], bool]) -> set[str]:
    """Return the candidates that are ``ratio`` times rarer than their letters are by chance.

    Args:
        share: How often each word of the dictionary is used, as a share of all words.
        ratio: Of the chance to the word's own share, from which on it is left out.
        is_candidate: Which words may be left out.
    """
    begin: defaultdict[str, float] = defaultdict(float)
    for word, own in share.items():
        for end in range(1, min(len(word), _MAX_PREFIX) + 1):
            begin[word[:end]] += own

    def chance(word: str) -> float:
        return sum(share[word[:cut]] * begin[word[cut:]] for cut in range(1, len(word)) if word[:cut] in share)

    return {word for word in share if is_candidate(word) and chance(word) > ratio * share[word]}
