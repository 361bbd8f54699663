"""Lists of the second tier: words of the language in its own letters, without English, single letters and fragments.

The tables are from knowledge of the languages, not from the lists.
"""

import unicodedata

import pytest

from vocab.lists.wordlists import known_languages, load_word_list, unspaced_language

SPACED = [lang for lang in known_languages(None) if unspaced_language(lang) is None]

SCRIPTS = {
    "ar": "ARABIC", "bg": "CYRILLIC", "bn": "BENGALI", "el": "GREEK", "fa": "ARABIC", "he": "HEBREW",
    "hi": "DEVANAGARI",
    "ko": "HANGUL", "mk": "CYRILLIC", "ru": "CYRILLIC", "ta": "TAMIL", "uk": "CYRILLIC", "ur": "ARABIC",
}  # fmt: skip
"""Scripts other than the Latin one, by the first word of their letters' names in Unicode."""

LETTERS = {
    "bg": "авеиокусяѝ", "ca": "aeiouy", "cs": "aikosuvz", "da": "iåø", "el": "ηοήω", "en": "aI", "es": "aeouy",
    "fil": "ao", "fr": "aàyô", "hu": "aeősó", "is": "áíó", "it": "aeèio", "lt": "įo", "lv": "ā", "mk": "авеиосѝ",
    "nb": "iåø", "nl": "u", "pl": "aiouwz", "pt": "aeoéàó", "ro": "aeio", "ru": "абвжикосуя", "sh": "aikosu",
    "sk": "aikosuvz", "sl": "akosvz", "sv": "iåö", "tr": "o", "uk": "абвеєжзіийоуя", "ar": "و", "fa": "و", "ur": "وآ",
    "hi": "वन", "bn": "এওঐআ", "ta": "ஆஈஓஏ",
    "vi": "àáạừưýôêởổủỉếuồờọốíyỳổứớơ",
}  # fmt: skip
"""Words of one letter; other languages have none."""

EXAMPLES = {
    # Listed among the first 2,000, and nowhere in the list.
    "ro": ("o e a și în că lui România București", "the of and you this b x romania bucurești http"),
    "cs": ("a v s z i on ven být Praha Česko", "the of you and http praha b x"),
    "sk": ("a v s z byť on Bratislava", "the of you and http bratislava b"),
    "pl": ("a i o w z u się jest Polska Warszawie", "the of you and http x b warszawie"),
    "sv": ("i å för att den in men så man Sverige Stockholm", "the of and you this http sverige stockholm b kr"),
    "da": ("i og for den men så to by Danmark København", "the of and you http danmark københavn kr"),
    "nb": ("i og for den men så to by Norge Oslo", "the of and you http norge oslo kr"),
    "nl": ("in is of had u wat Amsterdam", "the and you world amsterdam b"),
    "fi": ("on ja ei se hän Suomen", "the of and you http b x"),
    "hu": ("a ő és is nem Magyarország", "the of and you http magyarország b"),
    "el": ("και η ο να είναι Ελλάδα Αθήνα", "the a of to in ελλάδα αθήνα"),
    "uk": ("і й у в з що та Україна Київ", "the of что как это если україна київ"),
    "bg": ("и в с на е България София", "the of българия софия http"),
    "mk": ("и во на е Македонија Скопје", "the of a i скопје"),
    "hi": ("है और व न में नहीं", "the of a A and in x"),
    "ko": ("것 수 나 우리 사람", "the a of and in ㅋㅋ ㅠㅠ"),
    "ta": ("ஒரு என்று இந்த", "the a in of to"),
    "bn": ("এই এবং ও না", "the a of to by"),
    "ar": ("في من و على", "the a of to in"),
    "fa": ("و در به از", "the a of and i"),
    "ur": ("و اور ہے کے", "the a of by to"),
    "he": ("את של לא זה", "the a of in to"),
    "tr": ("o bir ve bu mı İstanbul", "the of and to istanbul"),
    "id": ("yang di dan ini itu Indonesia", "the you of indonesia"),
    "ms": ("yang di dan ini itu Malaysia", "the you of malaysia"),
    "fil": ("ang ng sa na mga Pilipinas", "the of and with for"),
    "vi": ("là và có không của", "the of and with"),
    "pt": ("com as a o e é não Brasil", "the of and you brasil"),
    "it": ("e è a i o di che Roma", "the of and you roma"),
    "ca": ("a i o al com del Barcelona", "the of and you barcelona"),
    "is": ("og á í að ekki Ísland", "the of and you ísland"),
    "lt": ("ir į kad yra Lietuvos", "the of and you"),
    "lv": ("un ir par ar Latvijas", "the of and you"),
    "sh": ("i u je da se Beograd", "the of and you beograd"),
    "sl": ("in je v za Ljubljana", "the of and you ljubljana"),
}


@pytest.mark.parametrize("lang", SPACED)
def test_first_words_are_the_languages_own(lang: str) -> None:
    word_list, script = load_word_list(lang, None), SCRIPTS.get(lang, "LATIN")
    letters = {char: word for word in word_list.up_to(5_000).words for char in word if char not in "'’-. "}
    # Spanish "nº" has no letter of a script.
    foreign = {char for char in letters if unicodedata.name(char).split()[0] not in (script, "MASCULINE", "FEMININE")}
    assert [letters[char] for char in foreign if unicodedata.category(char) != "Mn"] == []
    # A Korean syllable is a word, and is no letter.
    words, first = set(word_list.words), set(word_list.up_to(2_000).words)
    single = {word for word in words if len(word) == 1 and "SYLLABLE" not in unicodedata.name(word)}
    assert single <= set(LETTERS.get(lang, ""))
    listed, not_listed = EXAMPLES.get(lang, ("", ""))
    assert [word for word in listed.split() if word not in first] == []
    assert [word for word in not_listed.split() if word in words] == []


def test_every_spaced_language_is_cleaned() -> None:
    assert set(EXAMPLES) | {"de", "en", "es", "fr", "ru"} == set(SPACED)
