"""Which English words take no 's, as docs/word-lists.md defines it. Imports nothing of the library."""

import re
from pathlib import Path

_PAGE = (Path(__file__).parent.parent / "docs" / "word-lists.md").read_text()
_BLOCK = re.compile(r"<!-- not run: the words that take no 's -->\n```text\n(.*?)```", re.DOTALL)


def _words_of_the_page() -> frozenset[str]:
    [block] = _BLOCK.findall(_PAGE)
    words = block.split()
    assert len(words) > 200
    assert words == sorted(set(words))
    return frozenset(words)


WITHOUT_POSSESSIVE = _words_of_the_page()


def may_take_possessive(entry: str) -> bool:
    """Whether 's may follow an entry of an English list, or a form of it with another first letter."""
    last_word = entry.split(" ")[-1]
    both_cases = {last_word, last_word[:1].title() + last_word[1:]}
    in_other_letters = {word[:1].title() + word[1:] for word in WITHOUT_POSSESSIVE} | WITHOUT_POSSESSIVE
    return not set("'’") & set(entry) and not both_cases & in_other_letters
