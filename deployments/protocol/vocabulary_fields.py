"""The vocabulary in a request: the members of ``vocab``, the two flat fields that stand for it, and what they hold.

It checks types, ranges, single words, and what the members ask of one another, and makes the ``VocabularySpec``. The
members that say how the text is chosen are those of ``decoding_fields``.
Whether there is such a list, and whether the model can spell its words, is not known here.
"""

import difflib
from collections.abc import Mapping
from typing import Any, Final, get_args

from deployments.contract import VocabularySpec
from deployments.errors import BadRequestError, printable
from deployments.limits import Limits
from deployments.protocol.decoding_fields import MEMBERS, decoding_members
from deployments.protocol.fields import Check, FieldError, at, boolean, json_object, one_of
from vocab.errors import InvalidWordListError, OptionsError, WordListError
from vocab.lists.entries import clean_words
from vocab.lists.wordlists import NO_LANGUAGE, Unit, check_language, language_of
from vocab.options import Case, End, Layout, Punctuation

FLAT_FIELDS: Final = ("vocab_lang", "vocab_n_words")
"""Shorthand for an object of ``lang`` and ``n_words``; each needs the other."""

FIELDS: Final = ("vocab", *FLAT_FIELDS)

_INT64_MAX: Final = 2**63 - 1


def vocabulary_fields(limits: Limits) -> dict[str, Check]:
    """The checks of the fields, each by itself."""
    return {"vocab": _vocab_object(limits), "vocab_lang": list_name, "vocab_n_words": num_words}


def vocabulary_of(checked: Mapping[str, Any]) -> VocabularySpec | None:
    """What checked fields ask for; None where they name no vocabulary.

    Raises:
        BadRequestError: They do not go together, or an entry cannot be a word.
    """
    flat = [name for name in FLAT_FIELDS if name in checked]
    if "vocab" in checked:
        if flat:
            raise BadRequestError("Give either 'vocab' or the two flat fields, not both: leave one out.", flat[0])
        return _spec_of({name: value for name, value in checked["vocab"].items() if name not in MEMBERS})
    if not flat:
        return None
    for name in FLAT_FIELDS:
        if name not in checked:
            raise BadRequestError(f"'{flat[0]}' needs '{name}': add '{name}', or leave both out for free text.", name)
    return VocabularySpec(lang=checked["vocab_lang"], n_words=checked["vocab_n_words"])


def list_name(value: Any) -> str:
    expected = "the name of a word list, a string of at least 1 and at most 64 characters without control characters"
    if not isinstance(value, str) or not 1 <= len(value) <= 64 or not value.isprintable():
        raise FieldError(expected)
    return value


def num_words(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _INT64_MAX:
        raise FieldError("an integer of at least 1, the number of words")
    return value


def words(max_items: int, max_chars: int, max_bytes: int, *, min_items: int = 0) -> Check:
    """A list of words: how many, how long, how large together."""
    at_least = f"at least {min_items} and " if min_items else ""

    def check(value: Any) -> list[str]:
        if not isinstance(value, list) or not min_items <= len(value) <= max_items:
            raise FieldError(f"a list of {at_least}at most {max_items} words")
        # One loop and no call for each: 50,000 words take 3 ms.
        for index, word in enumerate(value):
            if type(word) is not str or not 1 <= len(word) <= max_chars:
                raise FieldError(f"a word, a string of at least 1 and at most {max_chars} characters", f"[{index}]")
        if len("".join(value).encode()) > max_bytes:
            raise FieldError(f"a list of words of at most {max_bytes} bytes together")
        return value

    return check


def _vocab_object(limits: Limits) -> Check:
    changes = words(limits.max_changed_words, limits.max_word_chars, limits.max_list_bytes)
    members: dict[str, Check] = {
        "lang": list_name,
        "n_words": num_words,
        "unit": one_of(*get_args(Unit)),
        "words": words(limits.max_list_words, limits.max_word_chars, limits.max_list_bytes, min_items=1),
        "extra_words": changes,
        "exclude_words": changes,
        "case": one_of(*get_args(Case)),
        "numbers": boolean,
        "punctuation": one_of(*get_args(Punctuation)),
        "layout": one_of(*get_args(Layout)),
        "end": one_of(*get_args(End)),
        **decoding_members(limits),
    }

    def check(value: Any) -> dict[str, Any]:
        given = json_object(value)
        for name in given:
            if name not in members:
                raise _unknown_member(name, members)
        return {name: at(f".{name}", members[name], given[name]) for name in given if given[name] is not None}

    return check


def _unknown_member(name: str, members: Mapping[str, Check]) -> BadRequestError:
    near = difflib.get_close_matches(name[:64], members, n=1, cutoff=0.6)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    shown = printable(name)
    return BadRequestError(
        f"Unknown member of 'vocab': '{shown}'.{hint} Its members are {', '.join(members)}.", f"vocab.{shown}"
    )


def _spec_of(members: Mapping[str, Any]) -> VocabularySpec:
    """The vocabulary of an object whose members are checked each by itself."""
    if "lang" not in members and "words" not in members:
        raise BadRequestError(
            "'vocab' needs 'lang', the name of a word list, or 'words', a list of its own: add one of them.",
            "vocab.lang",
        )
    if "words" in members and members.get("unit") == "lemma":
        raise BadRequestError(
            "'vocab.unit' cannot be 'lemma' beside 'words', for only a language's own list is grouped by lemmas: "
            "leave 'unit' out, or name a list by 'lang' and leave 'words' out.",
            "vocab.unit",
        )
    if "words" in members and "lang" in members:
        try:
            check_language(members["lang"])
        except WordListError as error:
            raise BadRequestError(str(error), "vocab.lang", "invalid_vocabulary") from None
    spec = VocabularySpec(**{**members, **{name: _cleaned(name, members[name]) for name in _LISTS if name in members}})
    try:
        _ = spec.options
    except OptionsError as error:
        raise BadRequestError(str(error), "vocab.end") from None
    try:
        spec.changes.check(language_of(spec.lang or NO_LANGUAGE))
    except OptionsError as error:
        raise BadRequestError(str(error), "vocab.extra_words") from None
    return spec


_LISTS: Final = ("words", "extra_words", "exclude_words")


def _cleaned(name: str, entries: list[str]) -> tuple[str, ...]:
    try:
        return clean_words(entries, f"vocab.{name}")
    except InvalidWordListError as error:
        # "vocab.words[3]: a control character …"
        message = str(error)
        raise BadRequestError(message, message.partition(":")[0]) from None
