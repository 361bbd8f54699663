"""wordfreq's bare stems of elisions get their apostrophes back."""

from pathlib import Path

import pytest
import wordfreq

from vocab.lists.wordlists import STEMS, load_word_list, with_apostrophes
from vocab.text.forms import ELISION_LANGUAGES


def test_there_are_stems_for_each_language_that_elides() -> None:
    assert set(STEMS) == ELISION_LANGUAGES


@pytest.mark.parametrize("lang", sorted(STEMS))
def test_each_stem_is_an_entry_of_wordfreqs(lang: str) -> None:
    assert STEMS[lang] <= set(wordfreq.iter_wordlist(lang))


def test_a_stem_becomes_its_elision_in_its_place() -> None:
    assert [*with_apostrophes(["de", "l", "homme", "jusqu", "b"], "fr")] == ["de", "l'", "homme", "jusqu'", "b"]


def test_a_word_that_is_elided_as_well_stands_for_both() -> None:
    assert [*with_apostrophes(["un", "e", "c"], "it")] == ["un", "un'", "e", "c'"]
    assert [*with_apostrophes(["un", "c"], "ca")] == ["un", "c"]


@pytest.mark.parametrize(
    ("lang", "elisions", "words", "no_words"),
    [
        ("fr", "l' d' c' qu' j' jusqu' puisqu'", "y à a ô homme aujourd'hui jusqu'à grand", "l d c qu j jusqu un'"),
        (
            "it",
            "l' d' c' un' all' dell' quest' mezz' ch'",
            "un e è a i o po di buon nessun dell'anno",
            "l d c dell all",
        ),
        ("ca", "l' d' s' m' t' n'", "a i o un se'n veure'l c qu", "l d s m t n"),
    ],
)
def test_the_languages_list_has_them(lang: str, elisions: str, words: str, no_words: str) -> None:
    listed = set(load_word_list(lang, None).words)
    assert set((elisions + " " + words).split()) <= listed
    assert not set(no_words.split()) & listed


def test_they_keep_the_place_of_the_stem() -> None:
    words = load_word_list("fr", None).words
    assert words[:8] == ("de", "la", "le", "et", "l'", "à", "les", "est")


def test_other_languages_keep_their_letters() -> None:
    assert {"l", "d"} <= set(load_word_list("es", None, source="wordfreq").words)


def test_list_files_are_taken_as_written(tmp_path: Path) -> None:
    (tmp_path / "fr.txt").write_text("l\nd'\nqu")
    assert load_word_list("fr", tmp_path).words == ("l", "d'", "qu")
