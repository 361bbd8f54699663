"""The checker of marks finds what is wrong in bad texts and nothing in good ones."""

import ast
from pathlib import Path

import pytest

from tests import marks_checker
from tests.marks_checker import misplaced_marks

GOOD = (
    ("en", "The dog ran."),
    ("en", " The dog ran"),
    ("en", 'She said "the dog ran." He did not.'),
    ("en", "“The dog,” she said, “ran to the (old) house.”"),
    ("en", "He asked (and asked again): where? Nobody knew..."),
    ("en", "“It ran. It ran again.\n\nIt ran home.” That was all."),
    ("en", "Dogs—and cats – are well-known animals - aren't they?!"),
    ("en", 'It was "“good” enough" (or not).'),
    ("en", "At 10:30, 1,000.50 of the goin' dogs' 3rd... 50%!"),
    ("en", "Yes! (No.) Yes?"),
    ("es", "¿Qué pasa? ¡Nada!"),
    ("es", "Dijo: «¡¿Qué?!» y se fue…"),
    ("es", "“¿Y «eso»?”, dijo él; nada más."),
    ("es", 'El "niño" (pequeño) vino.\n¿Sí?'),
    ("de", "„Das Haus“, sagte er, „ist alt.“"),
    ("de", "Das Haus (das alte) – ist „zu“."),
    ("de", 'Er sagte: "Das „Haus“ ist alt".'),
    ("fr", "L'homme dit «bonjour» à l’homme."),
    ("fr", "«Bonjour (encore). Bonjour.»"),
    ("fr", "Aujourd'hui: non."),
)

BAD = (
    ("en", "The dog. , ran", "stray"),
    ("en", "The dog ,ran", "stray"),
    ("en", "The dog.. ran.", "stray"),
    ("en", "The dog!!!! It ran.", "stray"),
    ("en", "The dog.,", "stray"),
    ("en", "The  dog ran.", "stray"),
    ("en", "The dog\nran.", "stray"),
    ("en", "The dog ran. ", "stray"),
    ("en", "The dog ran -", "stray"),
    ("en", "¿The dog ran?", "foreign"),
    ("en", "The «dog» ran.", "foreign"),
    ("en", "The [dog] ran.", "foreign"),
    ("en", "'The dog' ran.", "foreign"),
    ("en", "The “dog ran.", "unpaired"),
    ("en", "The dog” ran.", "unpaired"),
    ("en", 'The dog "" ran.', "empty"),
    ("en", "The (“dog)” ran.", "unpaired"),
    ("en", "The (old (brown) dog) ran.", "nested"),
    ("en", 'The ("“dog”") ran.', "nested"),
    ("es", "¿¿Qué?", "repeated"),
    ("es", "„Qué“ es.", "foreign"),
    ("de", "Das “Haus”.", "foreign"),
    ("de", "Das „Haus” ist.", "foreign"),
    ("fr", "« Bonjour ».", "stray"),
    ("fr", "", "no word"),
)


@pytest.mark.parametrize(("lang", "text"), GOOD)
def test_it_passes_a_good_text(lang: str, text: str) -> None:
    assert misplaced_marks(text, lang) == []


@pytest.mark.parametrize(("lang", "text", "fault"), BAD)
def test_it_fails_a_bad_text(lang: str, text: str, fault: str) -> None:
    faults = misplaced_marks(text, lang)
    assert any(fault in found for found in faults), faults


def test_there_are_twenty_of_each() -> None:
    assert len(set(GOOD)) >= 20
    assert len(set(BAD)) >= 20


def test_lines_may_break_behind_any_word() -> None:
    assert misplaced_marks("The dog,\nthe cat\n\nran.", "en", layout="lines") == []
    assert misplaced_marks("The dog.\n\n\nThe cat.", "en", layout="lines")


def test_entries_may_have_marks_of_their_own() -> None:
    assert (
        misplaced_marks("Mr. T, the c.e.o, ran in front of me.", "en", entries=("Mr. T", "c.e.o", "in front of")) == []
    )
    assert misplaced_marks("The c.e.o ran.", "en")
    abbreviated = ("Mr.", "etc.", "e.g.")
    for text in ("Mr. Fox, e.g. the dog, etc.", "The dog, etc.!", "The dog etc...", "The dog (e.g. Fox)."):
        assert misplaced_marks(text, "en", entries=abbreviated) == [], text
    assert misplaced_marks("The dog, etc.,, ran.", "en", entries=abbreviated)


def test_it_knows_nothing_of_the_library() -> None:
    source = Path(marks_checker.__file__).read_text(encoding="utf-8")
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
    }
    assert not any(name.split(".")[0] in ("vocab", "deployments", "tests") for name in imported)
