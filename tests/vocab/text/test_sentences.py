"""Sentences of texts as people write them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.checker import TextChecker

CHECKER = TextChecker(WordList("und", ("a",), "file"), ListOptions(), 1)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    return [(start, end) for start, end, _ in CHECKER.check(text, with_notes=False).sentences]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ('"Why?" she said. "No!" Then he left.', ['"Why?" she said.', '"No!"', "Then he left."]),
        ("Mr. Smith met J. R. Hall. It is I. We go.", ["Mr. Smith met J. R. Hall.", "It is I.", "We go."]),
        ("It cost 3.50 at a.m. time... Well.", ["It cost 3.50 at a.m. time...", "Well."]),
        ("A title\n\nThe text\nis short", ["A title", "The text", "is short"]),
        (
            "This line of an old book was wrapped at some width\nand goes on. So.",
            ["This line of an old book was wrapped at some width\nand goes on.", "So."],
        ),
        (" \n ", []),
        ("", []),
        ("no mark", ["no mark"]),
        ("你好。我们去！好吗？", ["你好。", "我们去！", "好吗？"]),
        ("他说：“你好！”我们去……好？！ 走。", ["他说：“你好！”", "我们去……", "好？！", "走。"]),
        ("「行こう。」と言った。『はい。』彼は行った。", ["「行こう。」と言った。", "『はい。』", "彼は行った。"]),
        ("“去吗？”，他说。", ["“去吗？”，他说。"]),
        ("「『はい。』」と言った。何！？、と言った。", ["「『はい。』」と言った。", "何！？、と言った。"]),
        ("¿Qué? ¡Sí! “Oui.” Non.", ["¿Qué?", "¡Sí!", "“Oui.”", "Non."]),
    ],
)
def test_a_text_is_cut_where_its_sentences_end(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@given(st.text(alphabet='aB. \n!"”Mr。…」中と', max_size=40))
def test_sentences_have_all_of_a_text_but_blanks(text: str) -> None:
    spans = sentence_spans(text)
    kept = "".join(text[start:end] for start, end in spans)
    assert "".join(kept.split()) == "".join(text.split())
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
