"""Who is named beside a list's words, in every file that has them."""

from typing import Final

from vocab.lists.wordlists import BY_STEM, Source, language_of, unspaced_language

_WORDFREQ: Final = (
    "Words: wordfreq, Copyright 2022 Robyn Speer (https://github.com/rspeer/wordfreq), data under CC BY-SA 4.0",
    "(https://creativecommons.org/licenses/by-sa/4.0/), and so is this file.",
    "Changed by wordbound: frequencies left out, entries left out, respelled and added.",
    "wordfreq holds data of Google Books Ngrams (http://books.google.com/ngrams), the Leeds Internet Corpus,",
    "Wikipedia, ParaCrawl, OpenSubtitles (http://www.opensubtitles.org/), and of SUBTLEX by Marc Brysbaert et al.,",
    "which is freely available data (http://crr.ugent.be/programs-data/subtitle-frequencies).",
)
_SIMPLEMMA: Final = (
    "Ranked by the lemmas of simplemma by Adrien Barbaresi (https://github.com/adbar/simplemma), MIT License,",
    "from the lists of Michal Mechura (ODbL), Wiktionary by Kaikki, FreeLing, spacy-lookups-data, UniMorph and",
    "Wikinflection (CC BY 4.0).",
)
_BY_LANGUAGE: Final[dict[str, tuple[str, ...]]] = {
    "zh": ("Which entries count is by CC-CEDICT (https://cc-cedict.org/), CC BY-SA 4.0, and jieba (Sun Junyi), MIT.",),
    "zh-Hant": (
        "Which entries count is by CC-CEDICT (https://cc-cedict.org/), CC BY-SA 4.0, and jieba (Sun Junyi), MIT;",
        "traditional characters by OpenCC (https://github.com/BYVoid/OpenCC), Apache License 2.0.",
    ),
    "ja": (
        "Which entries count is by SudachiDict (Works Applications), Apache License 2.0, and JMdict, property of",
        "the Electronic Dictionary Research and Development Group (https://www.edrdg.org/), CC BY-SA 4.0.",
    ),
    "ko": (
        "Stems, their inflected forms and which nouns have verbs are by Kiwi (https://github.com/bab2min/Kiwi),",
        "Copyright 2017-2026 Minchul Lee and the Kiwi contributors, Apache License 2.0.",
    ),
}
"""Beside wordfreq, where other sources ask for it."""

_THAI: Final = (
    "Words: PyThaiNLP (https://github.com/PyThaiNLP/pythainlp), its Thai word list, in the order of its frequencies of",
    "the Thai National Corpus and the Thai Textbook Corpus, CC0 1.0; and ICU's Thai dictionary, Copyright 2016 and",
    "later: Unicode, Inc. and others (https://www.unicode.org/copyright.html). Changed by wordbound: words left out.",
)


def attribution(source: Source, lang: str, *, is_by_lemma: bool) -> tuple[str, ...]:
    """Return the credits of a list's sources: lines in ASCII, without comment marks; none for words that need none."""
    unspaced, language = unspaced_language(lang), language_of(lang)
    lines: tuple[str, ...] = ()
    if source == "cleaned":
        lines = _THAI if unspaced == "th" else (*_WORDFREQ, *_BY_LANGUAGE.get(language, ()))
    return (*lines, *_SIMPLEMMA) if is_by_lemma and unspaced is None and language != BY_STEM else lines
