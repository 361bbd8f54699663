"""Words that a request brings itself: a list of its own, words to add, words to leave out.

Knows that the rules are those of a list file, and which entry breaks one. Knows nothing of requests: how many words
there may be, and how large they are together, is the caller's to say.
"""

from collections.abc import Sequence
from typing import Final

from vocab.errors import EmptyWordListError, InvalidWordListError, UnknownLanguageError
from vocab.lists.entries import clean_entry
from vocab.lists.wordlists import LIST_NAME, WordList, check_spaced

NO_LANGUAGE: Final = "und"
"""Stands for the language of a list that names none ("undetermined" in ISO 639): no language's rules apply."""


def clean_words(words: Sequence[str], place: str) -> tuple[str, ...]:
    """The words as a list keeps them: NFC, one blank for each run of blanks, none around, duplicates once.

    Unlike a line of a file, an entry that begins with "#" is a word and an empty one is a mistake.

    Args:
        words: As the client wrote them.
        place: Where they stand in the request ("vocab.words"), for the message of the error.

    Raises:
        InvalidWordListError: An entry cannot be a word; names place and number of the first, counted from 0.
    """
    cleaned: dict[str, None] = {}
    for index, entry in enumerate(words):
        try:
            word = clean_entry(entry)
        except InvalidWordListError as error:
            raise InvalidWordListError(f"{place}[{index}]: {error}") from None
        if not word:
            raise InvalidWordListError(f"{place}[{index}]: an entry without a character. Remove it.")
        cleaned[word] = None
    return tuple(cleaned)


def inline_word_list(words: Sequence[str], lang: str | None) -> WordList:
    """The list of the words in the order given.

    Args:
        words: At least one; cleaned as ``clean_words`` does.
        lang: The language whose rules of spelling apply (elisions, the possessive, Turkish capitals), as a tag; None
            for none. It needs no list of its own. Words of a script without spaces are as good as others as long as
            no such language is named; a text writes blanks or marks between them.

    Raises:
        InvalidWordListError: An entry cannot be a word.
        EmptyWordListError: No words.
        UnknownLanguageError: The tag is none.
        UnsupportedScriptError: A language written without spaces.
    """
    if lang is not None:
        check_language(lang)
    cleaned = clean_words(words, "words")
    if not cleaned:
        raise EmptyWordListError("The list has no words: name at least one, the most frequent first.")
    return WordList(lang or NO_LANGUAGE, cleaned, "inline")


def check_language(lang: str) -> None:
    """Refuses what cannot be the language of words that it does not come with.

    Raises:
        UnknownLanguageError: It is no tag.
        UnsupportedScriptError: A language written without spaces.
    """
    if not LIST_NAME.fullmatch(lang):
        raise UnknownLanguageError(f"{lang[:40]!r} is no language tag: write one such as 'es' or 'pt-BR'.")
    check_spaced(lang)
