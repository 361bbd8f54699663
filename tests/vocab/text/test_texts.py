"""Which texts are allowed with the marks of a language; that all rules are the recogniser's is shown in `test_reader`.

Here ``_`` stands for the only word of the list, "b"; where a sentence starts it may have a capital.
"""

from typing import Any

import pytest

from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.reader import TextReader

PROSE = ["_ _", "_. _", "_, _", "_; _", "_: _", "_—_", "_ – _", "_ - _", "_?\n_", "_:\n\n_"]
NO_PROSE = ["_ [_", "_ —_", "_—(—_", "_ ‘_", "_] _", "_» _", "_” _", '_" _', "_) _", "_ “_", "_ (_", "3"]
BASIC = {"punctuation": "basic"}
WHOLE = {"end": "sentence"}

# A language, options, and what is allowed and refused.
TEXTS: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    ("es", BASIC, ["_ _", "_. _", "_?! _", "_, _", "_… ¿_", "_ ¡_", "_.\n_"],
        ["_—_", "_ - _", "_: _", "_:\n_", '_." _', "_ (_", "_؟ _", "_। _", "_; _"]),
    ("fa", BASIC, ["_؟ _"], ["_। _"]),
    ("ur", BASIC, ["_، _"], []),
    ("ne", BASIC, ["_। _"], []),
    ("hi", BASIC, [], ["_، _"]),
    ("es", {}, [*PROSE, "_ ¿¡_", "_ “_”", "_ «_»", '_ ("_")', "_ «“_”»"],
        [*NO_PROSE, "_ ¿¿_", "_ „_“", "_ ((_))", '_ ""_""', '_ ("«_»")', "_ ««_»»"]),
    ("de", {}, [*PROSE, "_ „_“"], [*NO_PROSE, "_ ¿_", "_ “_”", "_ «_»"]),
    ("en", {}, [*PROSE, "_...", "_…", "_?!", "_’s", "_ “_”", '_ "_".', '_ "_."', '_ "_?!",'],
        [*NO_PROSE, "_..", "_.,", "_??", "_ ¿_", "_ «_»", "_ „_“", '_ "_', '_ ""', '_ "_".,', "_'s's"]),
    ("el", WHOLE, ["_;"], ["_"]),
    ("en", WHOLE, ["_.", "_'s."], ["_;", "_'s"]),
    ("ur", WHOLE, ["_۔"], ["_،"]),
]  # fmt: skip


def reader_of(language: str, *words: str, **options: Any) -> TextReader:
    return TextReader(WordList(language, words or ("b",), "file"), ListOptions(possessive=True, **options), 9)


@pytest.mark.parametrize(("language", "options", "allowed", "refused"), TEXTS)
def test_a_language_has_its_own_marks(
    language: str, options: dict[str, Any], allowed: list[str], refused: list[str]
) -> None:
    reader = reader_of(language, **options)
    assert [text for text in allowed if not reader.is_text(text.replace("_", "b"))] == []
    assert [text for text in refused if reader.is_text(text.replace("_", "b"))] == []


def test_after_an_elision_comes_a_word_and_nothing_else() -> None:
    reader = reader_of("fr", "l'", "ami", numbers=True)
    assert reader.is_text("l'ami") and reader.is_text("L’ami")
    assert not any(map(reader.is_text, ["l'", "l'.", "l' ami", "l'3", "l'l'"]))


def test_a_number_that_cannot_go_on_within_its_length_is_not_begun() -> None:
    reader = reader_of("es", numbers=True, punctuation="none")
    texts = ("1" * 14 + ".", "1" * 15 + ".", "1" * 16 + "%", "1" * 17)
    followers = [reader.follow() for _ in texts]
    for follower, text in zip(followers, texts, strict=True):
        follower.add(text)
    assert [follower.is_whole for follower in followers] == [True, False, False, False]
