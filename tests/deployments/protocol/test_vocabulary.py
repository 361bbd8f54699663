"""Rows 12, 25 and 27 of the faults: what a request may say of its vocabulary."""

from typing import Any

import pytest

from deployments.contract import USUAL_OPTIONS, VocabularySpec
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_LIST_BYTES
from tests.deployments.front import LIMITS
from tests.deployments.protocol.readers import Fault, each, read_chat, refusal, refused_otherwise
from vocab.options import ListOptions
from vocab.text.changes import ListChanges


def spec(**members: Any) -> VocabularySpec:
    vocabulary = read_chat(vocab=members).vocabulary
    assert vocabulary is not None
    return vocabulary


def test_a_list_by_name_has_all_its_words_and_the_default_options() -> None:
    assert spec(lang="es") == VocabularySpec(lang="es")
    assert spec(lang="es", words=None, unit=None, extra_words=[]) == VocabularySpec(lang="es")
    assert read_chat(vocab=None).vocabulary is None
    assert spec(lang="es").options == ListOptions(punctuation="standard", end="sentence") == USUAL_OPTIONS
    assert spec(lang="es").changes == ListChanges()
    assert spec(lang="es", n_words=1000) == VocabularySpec(lang="es", n_words=1000)


def test_without_marks_an_answer_ends_with_a_word_and_otherwise_with_a_sentence() -> None:
    assert spec(lang="es", punctuation="none").end == "word"
    assert spec(lang="es", punctuation="none", end="word").end == "word"
    assert spec(lang="es", punctuation="basic").end == "sentence"
    assert spec(lang="es", end="word").end == "word"
    flat = read_chat(vocab_lang="es", vocab_n_words=5).vocabulary
    assert flat is not None
    assert (flat.punctuation, flat.end) == ("standard", "sentence")


def test_every_option_reaches_the_specification() -> None:
    options = {"case": "listed", "numbers": True, "punctuation": "basic", "layout": "lines", "end": "sentence"}
    made = spec(lang="es", unit="lemma", source="wordfreq", safe=False, **options)
    assert (made.unit, made.source, made.safe) == ("lemma", "wordfreq", False)
    assert made.options == ListOptions("listed", "lines", True, "basic", "sentence")


def test_a_segmentation_reaches_the_specification_of_a_language_without_spaces() -> None:
    assert spec(lang="zh").segmentation == "longest"
    assert spec(words=["中"], lang="ja_n5", segmentation="any").options.segmentation == "any"
    assert spec(level="top-1000", lang="zh-TW", segmentation="any").options.segmentation == "any"


def test_a_list_of_ones_own_needs_no_language() -> None:
    made = spec(words=["sol", "mar"], n_words=1)
    assert (made.words, made.lang, made.n_words) == (("sol", "mar"), None, 1)
    assert spec(words=["l'", "eau"], lang="fr").lang == "fr"


def test_words_arrive_clean() -> None:
    made = spec(words=[" cafe\u0301 ", "a  b", "café"], extra_words=["Ana", "Ana"], exclude_words=["no"])
    assert made.words == ("café", "a b")
    assert made.changes == ListChanges(("Ana",), ("no",))
    assert len({spec(words=["a", "b"], end="sentence"), spec(end="sentence", words=["a", "b "])}) == 1


WRONG: dict[str, list[Any]] = {
    "lang": ["", "a\0b", "x" * 65, 5],
    "n_words": [0, True, 1.0, 10**40],
    "unit": ["word", True],
    "words": [[], "sol", {"sol": 1}, ["a"] * (LIMITS.max_list_words + 1)],
    "extra_words": [["a"] * (MAX_CHANGED_WORDS + 1)],
    "exclude_words": ["no"],
    "case": ["upper", ["any"]],
    "numbers": [1, "yes"],
    "punctuation": ["some", False],
    "layout": ["verse"],
    "end": ["line"],
    "segmentation": ["shortest"],
}
FLAT_WRONG: dict[str, list[Any]] = {
    "vocab_n_words": [0, -1, True, "1000", 1.5, 10**40, [], {}],
    "vocab_lang": ["", "a\0b", "en\n", "x" * 65, "x" * 10_240, 5, True, ["en"], {}, "\u202een", "e\u200bn"],
}


def test_a_member_of_another_type_or_out_of_range_is_named() -> None:
    faults: list[Fault] = [
        ({"vocab": {"lang": "es", member: value}}, f"vocab.{member}", "must be") for member, value in each(WRONG)
    ]
    flat = {"vocab_lang": "en", "vocab_n_words": 10}
    faults += [({**flat, name: value}, name, "must be") for name, value in each(FLAT_WRONG)]
    faults += [({"vocab": value}, "vocab", "must be") for value in ("es", ["es"], 5, True)]
    assert not refused_otherwise(faults)


@pytest.mark.parametrize("member", ["words", "extra_words", "exclude_words"])
def test_an_entry_that_cannot_be_a_word_is_named(member: str) -> None:
    entries: list[Any] = [
        *("", None, 5, True, ["a"], "x" * 101, " ", "a\nb", "a\x7f", "\u200ba", "a\u2028b", "\u202ea")
    ]
    for entry in entries:
        error = refusal(vocab={"lang": "es", member: ["sol", "mar", entry]})
        assert (error.status, error.param) == (400, f"vocab.{member}[2]")
        assert len(error.message) < 300


def test_a_list_is_bounded_in_bytes_too() -> None:
    words = [f"ñ{'a' * 98}{number:05}"[:100] for number in range(MAX_LIST_BYTES // 101)]
    assert spec(words=words)
    assert "1048576 bytes together" in refusal(vocab={"words": [*words, *words[:200]]}).message


def test_an_unknown_member_is_an_error_that_lists_the_known_ones() -> None:
    for name, hint in (("nwords", "n_words"), ("Lang", "lang"), ("word", "words"), ("zzz", None)):
        error = refusal(vocab={"lang": "es", name: None})
        assert error.param == f"vocab.{name}"
        assert "n_words, level, unit, source, safe, words" in error.message
        assert ("Did you mean" in error.message) == (hint is not None)
        assert hint is None or f"'{hint}'?" in error.message


def test_a_vocabulary_needs_a_list_and_both_of_the_flat_fields_or_neither() -> None:
    faults: list[Fault] = []
    for vocab in ({}, {"n_words": 10}, {"extra_words": ["Ana"]}, {"lang": None}):
        faults += [({"vocab": vocab}, "vocab.lang", part) for part in ("'lang'", "'words'")]
    flat: dict[str, Any] = {"vocab_lang": "es", "vocab_n_words": 5}
    for given, missing in (("vocab_lang", "vocab_n_words"), ("vocab_n_words", "vocab_lang")):
        half = {given: flat[given]}
        faults += [(fields, missing, f"add '{missing}'") for fields in (half, {**half, missing: None})]
        faults.append(({"vocab": {"lang": "es"}, **half}, given, "not both"))
    faults.append(({"vocab": {"lang": "es"}, **flat}, "vocab_lang", "not both"))
    assert not refused_otherwise(faults)


def test_members_that_contradict_one_another_are_refused() -> None:
    faults: list[tuple[dict[str, Any], str, str]] = [
        ({"words": ["a"], "unit": "lemma"}, "unit", "leave 'unit' out"),
        ({"words": ["a"], "source": "wordfreq"}, "source", "leave 'source' out"),
        ({"words": ["a"], "source": "auto"}, "source", "leave 'source' out"),
        ({"words": ["a"], "safe": False}, "safe", "leave 'safe' out"),
        ({"lang": "es", "source": "wordfreq", "safe": True}, "safe", "left as it is"),
        ({"lang": "es", "source": "hunspell"}, "source", "'wordfreq'"),
        ({"lang": "es", "safe": "no"}, "safe", "true or false"),
        ({"words": ["a"], "lang": "../../etc/passwd"}, "lang", "language tag"),
        ({"words": ["a"], "lang": "km"}, "lang", "without spaces"),
        ({"lang": "es", "segmentation": "any"}, "segmentation", "this list is of 'es'"),
        ({"words": ["中"], "segmentation": "longest"}, "segmentation", "this list is of no language"),
        ({"level": "A2", "lang": "en", "segmentation": "any"}, "segmentation", "this list is of 'en'"),
        ({"words": ["中", "中 国"], "lang": "zh"}, "words[1]", "'中 国' has a blank"),
        ({"lang": "ja", "extra_words": ["「あ」"]}, "extra_words[0]", "has the mark '「'"),
        ({"lang": "zh", "must_use": [{"word": "你好！"}]}, "must_use[0].word", "has the mark '！'"),
        ({"lang": "es", "end": "sentence", "punctuation": "none"}, "end", "set punctuation"),
        ({"lang": "es", "extra_words": ["Ana"], "exclude_words": ["ana"]}, "extra_words", "one of them"),
        ({"words": ["b"], "extra_words": ["l’a"], "exclude_words": ["L'A"]}, "extra_words", "one of them"),
    ]
    assert not refused_otherwise(({"vocab": vocab}, f"vocab.{member}", part) for vocab, member, part in faults)


def test_a_level_is_a_number_of_words_or_a_list_whose_language_may_be_left_out() -> None:
    assert spec(lang="es", level="top-500") == spec(lang="es", n_words=500)
    asked = spec(level="ngsl-2")
    assert (asked.lang, asked.level, asked.n_words) == ("en", "ngsl-2", None)
