"""Language tags: which list a tag means, and that no name of a list file is cut into one."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.errors import UnknownLanguageError, UnsupportedScriptError, WordListError
from vocab.lists.wordlists import inline_word_list, known_languages, language_of, list_name, load_word_list

WELL_FORMED = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]{4})?(-[A-Za-z]{2}|-[0-9]{3})?")

MEANT = {
    "en": "en EN En en-US en-us EN-gb en-Latn en-latn-US en-UK en-001",
    "pt": "pt-BR pt-PT PT-br",
    "es": "es-MX es-419 es-Latn-419",
    "nb": "no NO no-NO nb-NO no-Latn-NO",
    "sh": "hr bs sr hr-HR bs-BA sr-RS sr-Latn sr-latn-me sh-Latn cnr-ME",
    "fil": "tl tl-PH fil-PH",
    "he": "iw iw-IL he-Hebr",
    "id": "in in-ID id-ID",
    "ro": "mo mo-MD",
    "zh": "zh-CN zh-Hans zh-SG zh-hans-CN zh-Hans-TW",
    "zh-Hant": "zh-TW zh-HK zh-mo zh-hant zh-Hant-TW zh-Hant-CN",
    "ja": "ja-JP ja-Jpan",
    "th": "th-TH",
    "ko": "ko-KR ko-Kore ko-Hang-KR",
    "uk": "uk-UA uk-Cyrl",
}

NONE: list[tuple[str, str, type[WordListError]]] = [
    # No tags: names of list files that are not there.
    ("it-terms", "bring it-terms.txt for the folder WORDLIST_DIR", UnknownLanguageError),
    ("en_basic", "bring en_basic.txt", UnknownLanguageError),
    ("en-kids", "bring en-kids.txt", UnknownLanguageError),
    ("en-500", "bring en-500.txt", UnknownLanguageError),
    ("en-hs", "bring en-hs.txt", UnknownLanguageError),
    # More than language, script and region.
    ("ca-ES-valencia", "bring ca-ES-valencia.txt", UnknownLanguageError),
    ("en-US-x-mine", "bring en-US-x-mine.txt", UnknownLanguageError),
    # An underscore is no hyphen: it begins the rest of a file's name.
    ("pt_BR", "write 'pt-BR', with hyphens", UnknownLanguageError),
    ("zh_Hant_TW", "write 'zh-Hant-TW', with hyphens", UnknownLanguageError),
    # A language or a script without a list.
    ("nn", "Known languages: ar, ", UnknownLanguageError),
    ("xx-US", "Known languages: ar, ", UnknownLanguageError),
    ("sr-Cyrl", "the list of 'sr' is not in the script 'Cyrl', so write 'sr' for it", UnknownLanguageError),
    ("sr-cyrl-RS", "the list of 'sr' is not in the script 'Cyrl'", UnknownLanguageError),
    ("ru-Latn", "the list of 'ru' is not in the script 'Latn'", UnknownLanguageError),
    ("zh-Latn-CN", "the list of 'zh' is not in the script 'Latn'", UnknownLanguageError),
    ("KM", "written without spaces", UnsupportedScriptError),
    ("yue-hk", "written without spaces", UnsupportedScriptError),
]


@pytest.mark.parametrize(("name", "tags"), MEANT.items())
def test_a_tag_means_the_list_of_its_language(name: str, tags: str) -> None:
    assert {tag: list_name(tag, None) for tag in tags.split()} == dict.fromkeys(tags.split(), name)


@pytest.mark.fault(81)
@pytest.mark.parametrize(("name", "says", "error"), NONE)
def test_any_other_name_is_an_error_that_says_what_to_do(name: str, says: str, error: type[WordListError]) -> None:
    with pytest.raises(error) as raised:
        list_name(name, None)
    assert says in str(raised.value)


def test_every_built_in_list_is_found_in_its_script_and_region_and_in_any_capitals() -> None:
    scripts = {"ar": "Arab", "bn": "Beng", "el": "Grek", "he": "Hebr", "hi": "Deva", "ja": "Jpan", "ko": "Kore"}
    scripts |= {"ta": "Taml", "th": "Thai", "zh": "Hans"} | dict.fromkeys(("fa", "ur"), "Arab")
    scripts |= dict.fromkeys(("bg", "mk", "ru", "uk"), "Cyrl")
    for name in set(known_languages(None)) - {"zh-Hant"}:
        tag = f"{name}-{scripts.get(name, 'Latn')}"
        for asked in (name.upper(), tag, tag.lower(), f"{tag}-001", f"{name}-001"):
            assert list_name(asked, None) == name, asked


@pytest.mark.parametrize(
    ("files", "tag", "name"),
    [
        # The exact name goes first, then the tag in other capitals, then what is left without the region.
        ("en-US en", "en-US", "en-US"),
        ("en-US en", "EN-us", "en-US"),
        ("en-us en-US", "en-us", "en-us"),
        ("en-US en", "en-GB", "en"),
        ("EN", "en", "en"),
        ("it-terms", "it-terms", "it-terms"),
        ("it-terms", "it-IT", "it"),
        ("hr", "hr-HR", "hr"),
        ("hr", "bs", "sh"),
        ("no", "no-NO", "no"),
        ("no", "nb-NO", "nb"),
        ("zh-HK", "zh-hk", "zh-HK"),
        ("zh-HK", "zh-TW", "zh-Hant"),
        ("ja", "ja-JP", "ja"),
        ("eu", "EU-es", "eu"),
        # A file says nothing of its script.
        ("sr", "sr-RS", "sr"),
        ("sr", "sr-Latn", "sh"),
        ("sr-Cyrl", "sr-cyrl-RS", "sr-Cyrl"),
    ],
)
def test_a_list_file_goes_before_the_built_in_list(tmp_path: Path, files: str, tag: str, name: str) -> None:
    for file in files.split():
        (tmp_path / f"{file}.txt").write_text(f"{file}\n".replace("-", ""), encoding="utf-8")
    assert list_name(tag, tmp_path) == name
    if name in files.split():
        found = load_word_list(tag, tmp_path)
        assert (found.lang, found.source, found.words) == (name, "file", (name.replace("-", ""),))


@pytest.mark.fault(81)
@given(
    st.sampled_from(["en", "it", "sr", "no", "zh", "EN"]),
    st.one_of(
        st.from_regex(r"[-_][A-Za-z0-9]{1,8}([-_][A-Za-z0-9]{1,8}){0,2}", fullmatch=True),
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
    ),
)
def test_nothing_but_a_script_and_a_region_is_ever_left_out(language: str, suffix: str) -> None:
    asked, bare = language + suffix, list_name(language, None)
    try:
        name = list_name(asked, None)
    except WordListError:
        return
    assert name == asked or (WELL_FORMED.fullmatch(asked) and name in (bare, "zh-Hant" if bare == "zh" else bare))


def test_a_tag_gives_words_of_ones_own_the_rules_of_its_language() -> None:
    languages = {"IW-il": "he", "in": "id", "no": "nb", "hr": "hr", "EN": "en", "zh-tw": "zh-Hant", "fr_school": "fr"}
    assert {tag: inline_word_list(["x"], tag).language for tag in languages} == languages
    assert language_of("no_school") == "no"
