"""How the words of a text are read, each as a whole word of its language."""

import pytest

from vocab import readings
from vocab.errors import LanguageError
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions
from vocab.readings import check_readings, has_readings, reading_of, readings_of
from vocab.text.checker import TextChecker

pytest.importorskip("pypinyin")
pytest.importorskip("sudachidict_small")


def read(text: str, language: str) -> dict[str, str | None]:
    words = TextChecker(load_word_list(language, None), ListOptions(numbers=True), 3000).check(text).words
    spans = [word[:2] for word in words]
    return dict(zip((text[start:end] for start, end in spans), readings_of(text, spans, language), strict=True))


def test_a_chinese_word_is_read_as_a_whole() -> None:
    found = read("他长大了，看见长城和西安的银行。", "zh")
    assert (found["长大"], found["长城"]) == ("zhǎngdà", "chángchéng")
    assert (found["银行"], found["西安"], found["了"]) == ("yínháng", "xī'ān", "le")


def test_words_of_traditional_characters_are_read_as_the_simplified_ones() -> None:
    found = read("他慢慢地長大了，去銀行，看見長城。", "zh-Hant")
    assert (found["長大"], found["長城"], found["銀行"]) == ("zhǎngdà", "chángchéng", "yínháng")
    assert found["地"] == "de"


def test_a_japanese_word_is_read_in_its_sentence_and_kana_have_no_reading() -> None:
    found = read("私は昨日、三人で日本語を勉強しました。", "ja")
    assert (found["私"], found["昨日"], found["人"], found["日本語"]) == ("わたし", "きのう", "にん", "にほんご")
    assert (found["は"], found["まし"]) == (None, None)
    assert reading_of("人", "ja") == "ひと"


def test_places_are_in_code_points_and_long_lines_are_read_in_parts() -> None:
    text = "𠮷野家の東京。" * 900 + "\n東京"
    words = TextChecker(load_word_list("ja", None), ListOptions(), 3000).check(text).words
    found = readings_of(text, [word[:2] for word in words], "ja")
    places = [text[word.start : word.end] == "東京" for word in words]
    assert sum(places) == 901
    assert {one for is_meant, one in zip(places, found, strict=True) if is_meant} == {"とうきょう"}


def test_what_is_no_chinese_and_what_is_not_known_has_no_reading() -> None:
    assert [reading_of(word, "zh") for word in ("X光", "OK", "2020", "\U0003134f")] == ["Xguāng", None, None, None]
    assert reading_of("𠮷", "ja") is None


def test_other_languages_and_missing_packages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_readings("zh-Hant") and not has_readings("th")
    with pytest.raises(LanguageError, match="'th' have no readings"):
        check_readings("th")
    monkeypatch.setattr(readings, "find_spec", lambda _: None)
    assert not has_readings("zh")
    with pytest.raises(LanguageError, match=r"wordbound\[readings\]"):
        check_readings("zh")
