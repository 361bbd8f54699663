"""Where the table of a text without spaces has which number, or the address of which array."""

from typing import Final

N_WORDS, IS_ANY, NUM_MARKS, NUM_CHARS, NUM_PARTS, HAS_ALL_BYTES = range(6)
EDGE_START, LABELS, CHILDREN, PARENTS, DEPTHS_OF_NODES, OWN_LABELS = range(6, 12)
RANKS, BELOW, LINKS, CUT_RANKS, NUM_CUT, WHOLE_RANKS = range(12, 18)
MARKS, MARK_NUMBERS, GAP_TARGETS, IS_COMPLETE, OPENS_WORDS = range(18, 23)
STARTS_SENTENCE, CONTEXTS, AFTER_WORD, ROOT_CHILDREN, EDGE_NODES = range(23, 28)
SYMBOLS, DEPTHS, ENDS, TOKEN_START, TOKENS, CHARS = range(28, 34)
CHAR_NODES, PARTS, PART_NODES, DATA, DATA_START, SINGLE = range(34, 40)
# Those of one N.
TO_END, GAP_TO_END = range(40, 42)
TABLE_SIZE: Final = 42

# Of a text that is held to limits, after those of all texts: numbers, then arrays.
WORDS_LEFT, MOST_WORDS, SENTENCES_LEFT, SINCE_NEW, SPACING, NEW_LEFT, OLD_WORDS, NEEDS_MORE = range(
    TABLE_SIZE, TABLE_SIZE + 8
)
"""Words that the sentence may still have, and any sentence; sentences that may still begin; words since the last new
one, and from one to the next; new words that may still come; the rank up to which a word is not new; whether another
word must come."""
INTRODUCED, NUM_INTRODUCED, ON_WAYS, NUM_ON_WAYS = range(NEEDS_MORE + 1, NEEDS_MORE + 5)
"""Ranks of new words that may come at any time, and the nodes on the ways to them, int64, ascending."""
WORDS_TO_END, NEEDS_WORDS, NEEDS_SENTENCES = range(NUM_ON_WAYS + 1, NUM_ON_WAYS + 4)
"""Of the states that allow no new words, as ``counting.words_to_ends``; how few words must still come to the end of the
sentence, and how few sentences to the end of the text, by gap state, int64."""
NUM_TOKENS, NUM_FOLLOWED, FOLLOWED_TOKENS, FOLLOWED_NODES, FOLLOWED_STARTS, FOLLOWED_RANKS = range(
    NEEDS_SENTENCES + 1, NEEDS_SENTENCES + 7
)
"""How many tokens there are, and how many of ``counting.follow_all``, with their arrays."""
LIMITS_SIZE: Final = FOLLOWED_RANKS + 1
