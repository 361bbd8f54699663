"""Who is to be credited for the words of a list: lines for whatever file the words are written to.

wordfreq's data may be passed on under CC BY-SA 4.0, with its author named and changes indicated; SUBTLEX, which is part
of it, with its authors named and said to be free. NOTICE, at the root of the project, names every source.
"""

from typing import Final

from vocab.lists.wordlists import Source

_CHANGES: Final[dict[Source, str]] = {
    "wordfreq": "Changed by wordbound: frequencies and entries that are not words left out.",
    "cleaned": "Changed by wordbound: frequencies left out, entries left out, respelled and added.",
}
"""By source, for those that are wordfreq's: the words of a file or of a request are their owner's."""

_WORDFREQ: Final = (
    "Words: wordfreq, Copyright 2022 Robyn Speer (https://github.com/rspeer/wordfreq), data under CC BY-SA 4.0",
    "(https://creativecommons.org/licenses/by-sa/4.0/), and so is this file.",
)
_WORDFREQ_SOURCES: Final = (
    "wordfreq holds data of Google Books Ngrams (http://books.google.com/ngrams), the Leeds Internet Corpus,",
    "Wikipedia, ParaCrawl, OpenSubtitles (http://www.opensubtitles.org/), and of SUBTLEX by Marc Brysbaert et al.,",
    "which is freely available data (http://crr.ugent.be/programs-data/subtitle-frequencies).",
)
_SIMPLEMMA: Final = (
    "Ranked by the lemmas of simplemma by Adrien Barbaresi (https://github.com/adbar/simplemma), MIT License,",
    "from the lists of Michal Mechura (ODbL), Wiktionary by Kaikki, FreeLing, spacy-lookups-data, UniMorph and",
    "Wikinflection (CC BY 4.0).",
)


def attribution(source: Source, *, is_by_lemma: bool) -> tuple[str, ...]:
    """Return the credits of a list's sources: lines in ASCII, without comment marks; none for words that need none."""
    lines: tuple[str, ...] = ()
    if source in _CHANGES:
        lines = (*_WORDFREQ, _CHANGES[source], *_WORDFREQ_SOURCES)
    return (*lines, *_SIMPLEMMA) if is_by_lemma else lines
