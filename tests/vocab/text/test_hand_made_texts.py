"""Twenty texts by hand: a check finds each word that their lists lack, where it is, and no other.

The words that are not listed stand between ⟦ and ⟧, which are no part of the text.
"""

import re

import pytest

from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.checker import TextChecker

# A language, a list (most frequent first; _ stands for a blank, and what is behind / does not count), and a text.
CASES: dict[str, tuple[str, str, str]] = {
    "plain English": ("en", "the cat sat on mat", "The cat sat on the ⟦hat⟧. ⟦A⟧ ⟦dog⟧, the cat."),
    "beyond N": ("en", "the cat / sat", "The cat ⟦sat⟧; the cat ⟦Sat⟧."),
    "English possessives": ("en", "the dog house I'm don't one of in_front_of ice_cream",
         "The dog's house, the dog’s; I’m, DON'T, ⟦don⟧ ⟦cat's⟧ ⟦dogs’s⟧. ⟦The's⟧ one's ⟦of's⟧ ⟦in⟧ ⟦front⟧ ⟦of’s⟧ "
         "Ice cream's ⟦THE’S⟧ ⟦ice⟧ ⟦cream'sx⟧ DOG'S."),
    "capitals of names": ("en", "the Anna will Will I", "Anna will, ANNA! Will ⟦anna⟧ ⟦i⟧? The will. THE ⟦END⟧"),
    "English hyphens": ("en", "well-known well the man",
         "The well-known man; well ⟦known⟧, the ⟦well-man⟧, ⟦over⟧- the."),
    "entries with blanks": ("en", "in_front_of the house Mr._T", "In front of the house, ⟦in⟧ ⟦front⟧. Mr. T ⟦T⟧."),
    "French elisions": ("fr", "l' d' homme un aujourd'hui qu' il",
         "L’homme qu'il ⟦aime⟧, l'⟦arbre⟧ d’un homme; aujourd’hui ⟦c'est⟧ ⟦l⟧."),
    "French hyphens": ("fr", "peut-être dit il elle", "Peut-être ⟦dit-il⟧ : il dit, elle ⟦peut⟧."),
    "Italian elisions": ("it", "dell' un' anno acqua un c' è",
         "Dell'anno, un’acqua, c'è: ⟦l'altra⟧ un anno ⟦dell⟧."),
    "Catalan": ("ca", "l' d' home un any", "L'home d'un any ⟦pel⟧·⟦lícula⟧ l'⟦amic⟧"),
    "German nouns": ("de", "der Hund die Straße ist groß essen Essen",
         "Der Hund ⟦hund⟧ ist groß. Die Straße, die ⟦Strasse⟧: essen, ⟦das⟧ Essen."),
    "Dutch ij": ("nl", "ijs bij IJsland ij", "IJs bij IJsland. IJ ⟦Ijs⟧ ⟦ijsland⟧: ijs, IJS, IJSLAND."),
    "Turkish i": ("tr", "iyi ılık ısı İstanbul", "İyi, Ilık ısı. İstanbul; ⟦istanbul⟧ ⟦Iyi⟧ İSTANBUL."),
    "Spanish marks and accents": ("es", "qué niño él dijo el", "¿Qué niño? ¡Él dijo: «el ⟦nino⟧»! —⟦Que⟧— dijo."),
    "Russian": ("ru", "кошка сидит ещё кто-то", "Кошка сидит. Кто-то ⟦еще⟧, ещё ⟦собака⟧!"),
    "Greek": ("el", "της κόσμος ο", "Ο κόσμος της ⟦τησ⟧ ⟦ζωής⟧;"),
    "Arabic, from right to left": ("ar", "هذا كتاب جديد", "هذا كتاب ⟦قديم⟧، جديد؟ ⟦كِتَاب⟧"),
    "Hebrew, from right to left, with numbers": ("he", "זה בית של", "זה ⟦הבית⟧ של 12 בית, ⟦א⟧."),
    "Hindi, with its combining marks": ("hi", "यह किताब मेरी", "यह मेरी किताब ⟦है⟧। ⟦😀⟧ ⟦नई⟧"),
    "combining marks of letters that have a code point": ("fr", "café élève",
         "Cafe\u0301, café, E\u0301le\u0300ve ⟦cafe⟧ ⟦cafe\u0300⟧"),
    "numbers and emoji": ("en", "the cat at", "⟦👩‍👩‍👧⟧ the cat ⟦👍🏽⟧ 1,000.50 at 10:30 ⟦2nd⟧ ⟦𝔘⟧ 7 ⟦cats⟧ ⟦x2⟧"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_word_that_is_not_listed_is_found_where_it_is(name: str) -> None:
    language, words, marked = CASES[name]
    text = marked.replace("⟦", "").replace("⟧", "")
    # Each mark before it is one more character.
    found = enumerate(re.finditer("⟦(.+?)⟧", marked))
    expected = [(match[1], match.start() - 2 * index) for index, match in found]
    counted, _, others = words.partition(" / ")
    listed = tuple(word.replace("_", " ") for word in (*counted.split(), *others.split()))
    n_words = len(counted.split())
    options = ListOptions(numbers=True, possessive=language == "en")
    report = TextChecker(WordList(language, listed, "file"), options, n_words).check(text)
    assert [(report.spelling(word), word.start) for word in report.not_allowed] == expected
    assert all(text[word.start : word.end] == report.spelling(word) for word in report.words)
