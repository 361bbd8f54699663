"""Look for words in a list."""

from vocab.lists.wordlists import WordList


def words_with(word_list: WordList, part: str) -> list[tuple[int, str]]:
    """Return pairs of rank and word of those that have ``part`` in them, in any capitals: first those that begin with
    it, each in rank order; all in rank order where it is empty."""
    part = part.casefold()
    if not part:
        return list(word_list.ranked())
    found = [
        (not folded.startswith(part), rank, word)
        for rank, word in word_list.ranked()
        if part in (folded := word.casefold())
    ]
    return [(rank, word) for _, rank, word in sorted(found, key=lambda one: one[0])]
