"""Built-in lists: their files, the capitals of names and nouns, and what is no word for a reader.

``samples`` has 200 entries of each language, drawn at random from the first 5,000 without their capitals and ß, and
written there from knowledge of the language, not from the list. "a/A" may be written both ways; "!a" is no word.
"""

import random
import unicodedata
from functools import lru_cache
from pathlib import Path

import pytest

from tests.profanity import PROFANITY
from tests.reading_checker import LETTERS, reading_faults
from vocab.lists.wordlists import WordList, known_languages, load_word_list
from vocab.options import ListOptions
from vocab.text.reader import TextReader

CHECKED = ["de", "en", "es", "fr"]
"""The languages whose first words a person has read."""


@lru_cache(maxsize=8)
def words_of(lang: str, *, safe: bool = True) -> WordList:
    return load_word_list(lang, None, safe=safe)


def folded(word: str) -> str:
    return word.lower().replace("ß", "ss")


@pytest.mark.parametrize("lang", CHECKED)
class TestFirstWords:
    def test_names_and_nouns_of_a_sample_have_the_capitals_that_a_person_gives_them(self, lang: str) -> None:
        listed: dict[str, set[str]] = {}
        for word in words_of(lang).words[:6_000]:
            listed.setdefault(folded(word), set()).add(word)
        sample = (Path(__file__).parent / f"samples/{lang}.txt").read_text(encoding="utf-8").split()
        assert len(sample) == 200
        wrong = []
        for right in sample:
            spellings = set() if right[0] == "!" else set(right.split("/"))
            found = listed.get(folded(right.lstrip("!").split("/")[0]), set())
            if not found <= spellings or bool(found) != bool(spellings):
                wrong.append((right, sorted(found)))
        assert len(wrong) <= 0.02 * len(sample), wrong

    def test_texts_of_its_words_have_no_small_names_or_nouns_and_no_fragments(self, lang: str) -> None:
        words = words_of(lang).words
        assert {word for word in words if len(word) == 1} <= set(LETTERS[lang])
        assert [word for word in words if reading_faults(word, lang)] == []
        random_source = random.Random(lang)
        for n_words in (500, 3_000, 20_000):
            for _ in range(35):
                text = " ".join(random_source.choices(words[:n_words], k=150))
                assert reading_faults(text, lang) == [], (n_words, text)

    def test_a_safe_list_has_no_word_of_another_profanity_list(self, lang: str) -> None:
        assert {word for word in words_of(lang).words if word.lower().partition("'")[0] in PROFANITY[lang]} == set()
        unsafe = {word.lower() for word in words_of(lang, safe=False).words}
        assert len(PROFANITY[lang] & unsafe) > len(PROFANITY[lang]) / 2


@pytest.mark.parametrize(
    ("lang", "listed", "not_listed"),
    [
        ("en", "London Michael I I'm don't Monday may May will Will Turkey US us", "london michael i monday usa ve ll"),
        ("de", "Haus haben Straße groß dass Essen essen Leben leben weiß Weg sie Sie", "haus straße strasse gross daß"),
        ("es", "España Madrid lunes enero y María tú", "españa madrid Lunes Enero maría"),
        ("fr", "Paris lundi peut-être c'est-à-dire l' qu' États-Unis français à y œufs", "paris Lundi l L' th"),
        ("tr", "İstanbul Türkiye ev", "istanbul türkiye"),
        ("ru", "Россия из-за кто-то кто-нибудь по-русски я", "россия еще-то"),
        ("en", "ninety-nine twenty-one Mr. Mr etc. etc e.g. it's", "dog-house I's the's go's"),
        ("fr", "vas-y donne-moi vingt-trois est-ce dis-moi celui-ci là-bas M. Mme etc.", "va-y vingt-un tout-à-coup"),
        ("de", "usw. bzw. Dr. Nr. ca.", "bzw"),
        ("es", "Sr. Sra. Ud. Uds. etc.", "Sr sr di-me"),
        ("id", "anak-anak laki-laki orang-orang anak-anaknya berlari-lari", "yang-yang dan-dan"),
        ("ms", "kanak-kanak buku-buku baik-baik", "yang-yang"),
        ("fil", "araw-araw mag-aral tag-ulan", "ang-ang"),
        ("ro", "într-o s-a mi-a ți-am l-am dă-mi într-un dintr-o", "a-s"),
        ("pt", "dá-lo chama-se chamo-me fazê-lo dir-se-ia", "dar-lo"),
        ("ca", "anar-hi fer-ho vint-i-tres", "vint-tres"),
        ("bg", "по-добре най-добре по-голям", ""),
        ("uk", "будь-який хто-небудь по-українськи", ""),
        ("nl", "IJsland bijv. enz.", "Ijsland"),
    ],
)  # fmt: skip
def test_words_are_written_as_in_books(lang: str, listed: str, not_listed: str) -> None:
    words = set(words_of(lang).words)
    assert [word for word in listed.split() if word not in words] == []
    assert [word for word in not_listed.split() if word in words] == []


def test_a_capital_stands_where_a_sentence_starts_and_at_names() -> None:
    reader = TextReader(words_of("en"), ListOptions(), 3_000)
    for text in ("The dog.", "I met Michael in London.", "It may rain in May."):
        assert reader.is_text(text), text
    for text in ("the Dog.", "I met michael.", "i met him.", "The dog in london."):
        assert not reader.is_text(text), text


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_words_of_a_safe_list_move_up_and_it_has_another_digest(lang: str) -> None:
    safe, whole = words_of(lang), words_of(lang, safe=False)
    assert safe.source == whole.source == "cleaned"
    assert safe.digest != whole.digest
    assert whole.without({*whole.words} - {*safe.words}) == safe


@pytest.mark.parametrize("lang", known_languages(None))
def test_words_are_nfc_distinct_and_have_no_mark_of_the_file(lang: str) -> None:
    word_list = words_of(lang, safe=False)
    assert list(dict.fromkeys(unicodedata.normalize("NFC", word) for word in word_list.words)) == [*word_list.words]
    assert word_list.num_ranks <= 100_000 or word_list.is_unspaced
    # Letters and marks, with apostrophes, hyphens, and what abbreviations have.
    kinds = {unicodedata.category(char)[0] for word in word_list.words for char in word if char not in "'’-. "}
    assert kinds <= {"L", "M"}
