"""Rows 12, 25 and 27 of the faults: what a request may say of its vocabulary."""

from typing import Any

import pytest

from deployments.contract import USUAL_OPTIONS, VocabularySpec
from deployments.errors import ApiError
from deployments.protocol.reader import ChatRequestReader
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_LIST_BYTES
from tests.deployments.front import LIMITS, MODEL, chat_body
from vocab.options import ListOptions
from vocab.text.changes import ListChanges

READER = ChatRequestReader(MODEL, LIMITS)


def spec(**members: Any) -> VocabularySpec:
    vocabulary = READER.read(chat_body(vocab=members)).vocabulary
    assert vocabulary is not None
    return vocabulary


def fault(vocab: Any, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        READER.read(chat_body(vocab=vocab, **fields))
    assert caught.value.status == 400
    assert len(caught.value.to_json()) <= 4096
    return caught.value


def test_a_list_by_name_has_all_its_words_and_the_default_options() -> None:
    assert spec(lang="es") == VocabularySpec(lang="es")
    assert spec(lang="es").options == ListOptions(punctuation="standard", end="sentence") == USUAL_OPTIONS
    assert spec(lang="es").changes == ListChanges()
    assert spec(lang="es", n_words=1000) == VocabularySpec(lang="es", n_words=1000)


def test_without_marks_an_answer_ends_with_a_word_and_otherwise_with_a_sentence() -> None:
    assert spec(lang="es", punctuation="none").end == "word"
    assert spec(lang="es", punctuation="none", end="word").end == "word"
    assert spec(lang="es", punctuation="basic").end == "sentence"
    assert spec(lang="es", end="word").end == "word"
    flat = READER.read(chat_body(vocab_lang="es", vocab_n_words=5)).vocabulary
    assert flat is not None
    assert (flat.punctuation, flat.end) == ("standard", "sentence")


def test_every_option_reaches_the_specification() -> None:
    made = spec(
        lang="es",
        unit="lemma",
        source="wordfreq",
        safe=False,
        case="listed",
        numbers=True,
        punctuation="basic",
        layout="lines",
        end="sentence",
    )
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


@pytest.mark.parametrize("vocab", [None, {"lang": "es", "words": None, "unit": None, "extra_words": []}])
def test_null_is_the_same_as_nothing(vocab: Any) -> None:
    expected = None if vocab is None else VocabularySpec(lang="es")
    assert READER.read(chat_body(vocab=vocab)).vocabulary == expected


def test_the_same_vocabulary_is_the_same_key() -> None:
    assert len({spec(words=["a", "b"], end="sentence"), spec(end="sentence", words=["a", "b "])}) == 1


WRONG: list[tuple[str, Any]] = [
    ("lang", ""),
    ("lang", "a\0b"),
    ("lang", "x" * 65),
    ("lang", 5),
    ("n_words", 0),
    ("n_words", True),
    ("n_words", 1.0),
    ("n_words", 10**40),
    ("unit", "word"),
    ("unit", True),
    ("words", []),
    ("words", "sol"),
    ("words", {"sol": 1}),
    ("words", ["a"] * (LIMITS.max_list_words + 1)),
    ("extra_words", ["a"] * (MAX_CHANGED_WORDS + 1)),
    ("exclude_words", "no"),
    ("case", "upper"),
    ("case", ["any"]),
    ("numbers", 1),
    ("numbers", "yes"),
    ("punctuation", "some"),
    ("punctuation", False),
    ("layout", "verse"),
    ("end", "line"),
    ("segmentation", "shortest"),
]


@pytest.mark.parametrize(("member", "value"), WRONG, ids=[f"{member}-{str(value)[:12]}" for member, value in WRONG])
def test_a_member_of_another_type_or_out_of_range_is_named(member: str, value: Any) -> None:
    error = fault({"lang": "es", member: value})
    assert error.param == f"vocab.{member}"
    assert "must be" in error.message


@pytest.mark.parametrize("member", ["words", "extra_words", "exclude_words"])
@pytest.mark.parametrize(
    "entry", ["", None, 5, True, ["a"], "x" * 101, " ", "a\nb", "a\x7f", "\u200ba", "a\u2028b", "\u202ea"]
)
def test_an_entry_that_cannot_be_a_word_is_named(member: str, entry: Any) -> None:
    error = fault({"lang": "es", member: ["sol", "mar", entry]})
    assert error.param == f"vocab.{member}[2]"
    assert len(error.message) < 300


def test_a_list_is_bounded_in_bytes_too() -> None:
    words = [f"ñ{'a' * 98}{number:05}"[:100] for number in range(MAX_LIST_BYTES // 101)]
    assert READER.read(chat_body(vocab={"words": words})).vocabulary
    with pytest.raises(ApiError, match="1048576 bytes together"):
        READER.read(chat_body(vocab={"words": [*words, *words[:200]]}))


@pytest.mark.parametrize(("name", "hint"), [("nwords", "n_words"), ("Lang", "lang"), ("word", "words"), ("zzz", None)])
def test_an_unknown_member_is_an_error_that_lists_the_known_ones(name: str, hint: str | None) -> None:
    error = fault({"lang": "es", name: None})
    assert error.param == f"vocab.{name}"
    assert "n_words, level, unit, source, safe, words" in error.message
    assert ("Did you mean" in error.message) == (hint is not None)
    assert hint is None or f"'{hint}'?" in error.message


@pytest.mark.parametrize("vocab", ["es", ["es"], 5, True])
def test_a_vocabulary_is_an_object(vocab: Any) -> None:
    assert fault(vocab).param == "vocab"


@pytest.mark.parametrize("vocab", [{}, {"n_words": 10}, {"extra_words": ["Ana"]}, {"lang": None}])
def test_a_vocabulary_needs_a_list(vocab: Any) -> None:
    error = fault(vocab)
    assert error.param == "vocab.lang"
    assert "'lang'" in error.message
    assert "'words'" in error.message


@pytest.mark.parametrize(
    ("vocab", "param", "part"),
    [
        ({"words": ["a"], "unit": "lemma"}, "vocab.unit", "leave 'unit' out"),
        ({"words": ["a"], "source": "wordfreq"}, "vocab.source", "leave 'source' out"),
        ({"words": ["a"], "source": "auto"}, "vocab.source", "leave 'source' out"),
        ({"words": ["a"], "safe": False}, "vocab.safe", "leave 'safe' out"),
        ({"lang": "es", "source": "wordfreq", "safe": True}, "vocab.safe", "left as it is"),
        ({"lang": "es", "source": "hunspell"}, "vocab.source", "'wordfreq'"),
        ({"lang": "es", "safe": "no"}, "vocab.safe", "true or false"),
        ({"words": ["a"], "lang": "../../etc/passwd"}, "vocab.lang", "language tag"),
        ({"words": ["a"], "lang": "km"}, "vocab.lang", "without spaces"),
        ({"lang": "es", "segmentation": "any"}, "vocab.segmentation", "this list is of 'es'"),
        ({"words": ["中"], "segmentation": "longest"}, "vocab.segmentation", "this list is of no language"),
        ({"level": "A2", "lang": "en", "segmentation": "any"}, "vocab.segmentation", "this list is of 'en'"),
        ({"words": ["中", "中 国"], "lang": "zh"}, "vocab.words[1]", "'中 国' has a blank"),
        ({"lang": "ja", "extra_words": ["「あ」"]}, "vocab.extra_words[0]", "has the mark '「'"),
        ({"lang": "zh", "must_use": [{"word": "你好！"}]}, "vocab.must_use[0].word", "has the mark '！'"),
        ({"lang": "es", "end": "sentence", "punctuation": "none"}, "vocab.end", "set punctuation"),
        ({"lang": "es", "extra_words": ["Ana"], "exclude_words": ["ana"]}, "vocab.extra_words", "one of them"),
        ({"words": ["b"], "extra_words": ["l’a"], "exclude_words": ["L'A"]}, "vocab.extra_words", "one of them"),
    ],
)
def test_members_that_contradict_one_another_are_refused(vocab: Any, param: str, part: str) -> None:
    error = fault(vocab)
    assert error.param == param
    assert part in error.message


@pytest.mark.parametrize("flat", [{"vocab_lang": "es"}, {"vocab_n_words": 5}, {"vocab_lang": "es", "vocab_n_words": 5}])
def test_only_one_form_may_be_used(flat: dict[str, Any]) -> None:
    error = fault({"lang": "es"}, **flat)
    assert error.param == next(iter(flat))
    assert "not both" in error.message


def test_ten_thousand_faults_get_one_short_answer() -> None:
    fault({f"member_{index}": index for index in range(10_000)})
    fault({"x" * 100_000: 1})
    fault({"words": ["\x01" * 100] * 10_000})
    fault({"words": ["x" * 100_000] * 10})
    fault({"words": [["x"] * 100] * 10_000})
    fault({"lang": "\x01" * 64, "words": [5] * 10_000})


def test_a_band_is_a_number_of_words() -> None:
    assert spec(lang="es", level="top-500") == spec(lang="es", n_words=500)


def test_the_language_of_a_level_may_be_left_out() -> None:
    asked = spec(level="ngsl-2")
    assert (asked.lang, asked.level, asked.n_words) == ("en", "ngsl-2", None)
