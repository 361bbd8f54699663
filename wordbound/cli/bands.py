"""Show how frequent each word of a text is while it grows: by a colour, and by a mark after the word for whoever sees
no colours."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    from rich.text import Text

    from vocab.text.checking.checker import TextChecker


class Band(NamedTuple):
    """Words up to a rank; None is all others."""

    max_rank: int | None
    mark: str
    style: str


BANDS: Final = (
    Band(500, "", ""),
    Band(1_000, "¹", "cyan"),
    Band(2_000, "²", "green"),
    Band(5_000, "³", "yellow"),
    Band(None, "⁴", "magenta"),
)
"""The steps of graded readers' first levels, of which each asks for about twice the words of the one before."""

ADDED: Final = Band(None, "⁺", "underline")
"""Names and words that were added to the list."""


class Painter:
    """Paints the pieces of a text as they come."""

    def __init__(self, checker: "TextChecker") -> None:
        self._checker = checker
        self._held = ""

    @classmethod
    def of(cls, lang: str | None, list_file: Path | None, words: int | None, added: list[str]) -> Self:
        """Return a painter for a list of this machine.

        Raises:
            VocabularyError: This machine has no such list.
        """
        from vocab.lists.wordlists import NO_LANGUAGE, WordList, load_word_list, words_of_file
        from vocab.options import ListOptions
        from vocab.text.changes import ListChanges
        from vocab.text.checking.checker import TextChecker

        if list_file is not None:
            word_list = WordList(lang or NO_LANGUAGE, words_of_file(list_file), "file")
        else:
            word_list = load_word_list(lang or NO_LANGUAGE, None)
        changes = ListChanges(tuple(added), ())
        return cls(TextChecker(word_list, ListOptions(numbers=True), words or word_list.num_ranks, changes))

    def paint(self, piece: str) -> "Text":
        """Return what can be shown of the text so far: whole words, painted."""
        text = self._held + piece
        # Of the last word the next piece may bring more.
        end = max(text.rfind(" "), text.rfind("\n")) + 1
        self._held = text[end:]
        return self._paint(text[:end])

    def rest(self) -> "Text":
        """Return what was held, at the end of a text."""
        text, self._held = self._held, ""
        return self._paint(text)

    def _paint(self, text: str) -> "Text":
        from rich.text import Text

        painted, done = Text(), 0
        for word in self._checker.check(text).words:
            band = _band(word.rank, word.reason)
            painted.append(text[done : word.start])
            painted.append(text[word.start : word.end] + band.mark, band.style)
            done = word.end
        painted.append(text[done:])
        return painted


def legend() -> Iterator[str]:
    """Yield what each mark means."""
    least = 1
    for band in BANDS:
        most = f"{least:,} to {band.max_rank:,}" if band.max_rank else f"from {least:,}"
        yield f"{band.mark} {most}" if band.mark else f"no mark {most}"
        least = (band.max_rank or 0) + 1
    yield f"{ADDED.mark} added"


def _band(rank: int | None, reason: Any) -> Band:
    if reason == "added":
        return ADDED
    if reason == "number":
        return BANDS[0]
    return next(band for band in BANDS if band.max_rank is None or (rank is not None and rank <= band.max_rank))
