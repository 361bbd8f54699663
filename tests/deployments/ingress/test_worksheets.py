"""Exercises as files, over a real connection, read back by other programs' readers where there is one."""

import csv
import html
import io
import re
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import docx
import pytest

from deployments.protocol.documents import DOCX
from tests.deployments.front import Front
from tests.e2e.environments import notes_in_anki
from vocab.documents import text_of

WORKSHEET = "/v1/documents/worksheet"
QTI = "{http://www.imsglobal.org/xsd/imsqti_v2p1}"

QUESTION = {
    "question": "What did {he} say: a = b?",
    "options": ["~no~", "yes -> no", "x#y"],
    "answer": 1,
    "source": {"start": 3, "end": 12},
}
EXERCISES: list[dict[str, Any]] = [
    {"kind": "questions", "instruction": "Which answer is right?", "items": [QUESTION]},
    {
        "kind": "true_false",
        "items": [{"statement": "The dog <ran>.", "answer": True}, {"statement": "The dog slept.", "answer": False}],
    },
    {
        "kind": "gap_fill",
        "items": [{"before": "The ", "after": " ran\nhome.", "options": ["cat", "dog"], "answer": 1}],
    },
    {
        "kind": "matching",
        "instruction": "Which words go together?",
        "items": [
            {"word": "dog", "gloss": "an animal & a friend"},
            {"word": "home", "gloss": "where you live"},
            {"word": "run", "gloss": "to go fast"},
        ],
        "shown": [2, 0, 1],
    },
    {
        "kind": "order",
        "items": [{"sentence": "First."}, {"sentence": "Then."}, {"sentence": "Last."}],
        "shown": [1, 2, 0],
    },
    {"kind": "dictation", "items": [{"sentence": "The dog ran.", "num_words": 3}]},
]


def made(front: Front, form: str, **fields: Any) -> bytes:
    answer = front.post(WORKSHEET, {"format": form, "exercises": EXERCISES, "title": "The dog", **fields})
    assert answer.status_code == 200, answer.text
    assert 'filename="The dog.' in answer.headers["content-disposition"]
    return bytes(answer.content)


SHEET = """The dog

The dog ran home.

1. Which answer is right?
1) What did {he} say: a = b?
a) ~no~   b) yes -> no   c) x#y

2.
1) The dog <ran>.  ___
2) The dog slept.  ___

3.
1) The __________ ran
home.
a) cat   b) dog

4. Which words go together?
1) dog  ___        a) to go fast
2) home  ___        b) an animal & a friend
3) run  ___        c) where you live

5.
1) ___  Then.
2) ___  Last.
3) ___  First.

6.
1) ____________________________________________________________

Key

1. Which answer is right?
1) b) yes -> no

2.
1) ✓
2) ✗

3.
1) b) dog

4. Which words go together?
1) b
2) c
3) a

5.
1) 2
2) 3
3) 1

6.
1) The dog ran.
"""


def test_plain_text_has_the_key_after_the_exercises(front: Front) -> None:
    assert made(front, "txt", text="The dog ran home.").decode() == SHEET


def test_a_document_has_the_key_on_a_page_of_its_own(front: Front) -> None:
    answer = front.post(
        WORKSHEET, {"format": "docx", "exercises": EXERCISES, "key_title": "Answers", "text": "It ran."}
    )
    assert answer.headers["content-type"] == DOCX
    lines = text_of(answer.content, "a.docx").splitlines()
    expected = SHEET.replace("The dog ran home.", "It ran.").replace("Key", "Answers").splitlines()
    assert [line for line in lines if line.strip()] == [line for line in expected[2:] if line.strip()]
    paragraphs = docx.Document(io.BytesIO(answer.content)).paragraphs
    assert [one.text for one in paragraphs if one.paragraph_format.page_break_before] == ["Answers"]


HOSTILE = [
    '"Run!" he said', '"', 'a "b" c', "#1 is", "#separator:comma", "# ", "=1+1", "+1", "-ness", "@a", "＝1", "\t=1",
    "[sound:a.mp3] a", "[latex]a[/latex]", "[$]a[/$]", "[anki:tts lang=en_US]a[/anki:tts]", "[plain]a", "[html]a",
    "{{c1::a}}", "{a}", "%100%a", "%-50%a", "100%", "a->b", "->", "a\nb", "//a", "a; b, c", "a & b &amp; <b>c</b>",
    "~a=b:c#d", "a\\nb", "\\", "a\\", "\\=a", "::a::b", "****a", "$CATEGORY: a", "c'est l'été", "日本", "😀",
]  # fmt: skip
"""Texts that mean something to a program that reads the files."""


def hostile_exercises() -> list[dict[str, Any]]:
    """Each of the texts at each place of an exercise."""
    exercises: list[dict[str, Any]] = []
    halves = HOSTILE[:20], HOSTILE[20:]
    for half in halves:
        pairs = [{"word": text, "gloss": text} for text in half]
        exercises.append({"kind": "matching", "items": pairs, "shown": [*range(len(half))]})
    for half in halves:
        gaps = [
            {"before": text, "after": text, "options": [text, f"{text} x", "y"], "answer": index % 2}
            for index, text in enumerate(half)
        ]
        exercises.append({"kind": "gap_fill", "items": gaps})
    for half in halves:
        asked = [{"question": text, "options": ["y", text], "answer": 0} for text in half]
        exercises.append({"kind": "questions", "items": asked})
    return exercises


CARDS = [(text, text) for text in HOSTILE] + [
    (f"{text}__________{text}", [text, f"{text} x"][index % 20 % 2]) for index, text in enumerate(HOSTILE)
]


@pytest.mark.fault(78)
@pytest.mark.e2e
def test_anki_imports_every_card_as_it_was_written(front: Front, tmp_path: Path) -> None:
    path = tmp_path / "cards.tsv"
    path.write_bytes(made(front, "tsv", exercises=hostile_exercises()))
    assert sorted(map(tuple, notes_in_anki(path))) == sorted(CARDS)


@pytest.mark.fault(78)
def test_no_cell_of_the_cards_is_a_formula_or_a_line_of_settings(front: Front) -> None:
    *head, table = made(front, "tsv", exercises=hostile_exercises()).decode().split("\n", 3)
    assert head == ["#separator:tab", "#html:true", "#columns:Front\tBack"]
    rows = list(csv.reader(io.StringIO(table), delimiter="\t"))
    assert [tuple(html.unescape(cell.replace("<br>", "\n")) for cell in row) for row in rows] == CARDS
    assert not any(cell.startswith(tuple("=+-@\t\r＝＋－＠")) for row in rows for cell in row)
    assert not any(line.startswith("#") for line in table.splitlines())


def read_gift(gift: str) -> list[tuple[str, list[tuple[float, str]]]]:
    """Read questions as Moodle does (question/format/gift/format.php): the text, and each answer with its weight.

    Of a pair, the answer is ``first → second``.
    """

    def text_in(part: str) -> str:
        assert part.startswith("[html]")
        plain = re.sub(r"&&(\d+);", lambda code: chr(int(code[1])), part[6:])
        return html.unescape(plain.replace("<br>", "\n")).strip()

    questions = []
    for block in gift.removesuffix("\n").split("\n\n"):
        block = re.sub(r"\\([\\:#={}~])", lambda mark: f"&&{ord(mark[1])};", block)
        name, stem = re.fullmatch(r"::([^:]*):: ?(.*)", block, re.DOTALL).groups()  # type: ignore[union-attr]
        assert re.fullmatch(r"\d+\.\d+", name)
        before, answers, after = re.fullmatch(r"(.*?)\{(.*)\}(.*)", stem, re.DOTALL).groups()  # type: ignore[union-attr]
        found: list[tuple[float, str]] = []
        for answer in re.split(r"(?=[~=])", answers.strip())[1:]:
            mark, text = answer[0], answer[1:].strip()
            weight = 100.0 * (mark == "=")
            if mark == "~" and (weighed := re.match(r"%(-*[0-9]{1,2}\.?[0-9]*)%", text)):
                weight, text = float(weighed[1]), text[weighed.end() :]
            assert "#" not in text, "what follows would be the feedback"
            if " -> " in text:
                first, _, second = text.partition("->")
                text = f"{text_in(first.strip())} → {text_in('[html]' + second.strip())}"
            else:
                text = text_in(text if re.match(r"\[\w+\]", text) else f"[html]{text}")
            found.append((weight, text))
        stem = f"{before}_____{after}" if after else before
        questions.append((text_in(stem.strip()) if stem else "", found))
    return questions


@pytest.mark.fault(78)
def test_moodle_reads_every_question_as_it_was_written(front: Front) -> None:
    questions = read_gift(made(front, "gift", exercises=hostile_exercises()).decode())
    pairs = [answers for _, answers in questions[:2]]
    assert [text for answers in pairs for _, text in answers] == [
        f"{text.strip()} → {text.strip()}" for text in HOSTILE
    ]
    gaps, asked = questions[2 : 2 + len(HOSTILE)], questions[2 + len(HOSTILE) :]
    for index, (text, gap, question) in enumerate(zip(HOSTILE, gaps, asked, strict=True)):
        right = index % 20 % 2
        assert gap[0] == f"{text}_____{text}".strip()
        assert gap[1] == [
            (100.0 * (right == 0), text.strip()), (100.0 * (right == 1), f"{text} x".strip()), (0.0, "y"),
        ]  # fmt: skip
        assert question == (text.strip(), [(100.0, "y"), (0.0, text.strip())])


def test_gift_has_every_kind_but_a_dictation(front: Front) -> None:
    questions = made(front, "gift").decode().split("\n\n")
    assert questions[0] == r"::1.1:: [html]What did \{he\} say\: a \= b? {~\~no\~ =yes -&gt; no ~x\#y}"
    assert questions[1:3] == ["::2.1:: [html]The dog &lt;ran&gt;. {T}", "::2.2:: [html]The dog slept. {F}"]
    assert questions[3] == "::3.1:: [html]The {~cat =dog} ran<br>home."
    assert questions[4].splitlines() == [
        "::4.1:: [html]Which words go together? {",
        "  =[html]an animal &amp; a friend -> dog",
        "  =[html]where you live -> home",
        "  =[html]to go fast -> run",
        "}",
    ]
    # In the order in which they are shown, each with its place.
    assert re.findall(r"=\[html\](\w+)\. -> (\d)", questions[5]) == [("Then", "2"), ("Last", "3"), ("First", "1")]
    assert len(questions) == 6
    item = {"before": "", "after": " ran.", "options": ["Cats", "Dogs"], "answer": 1}
    [question] = read_gift(made(front, "gift", exercises=[{"kind": "gap_fill", "items": [item]}]).decode())
    assert question == ("_____ ran.", [(0.0, "Cats"), (100.0, "Dogs")])


@pytest.mark.fault(78)
def test_a_package_has_every_text_as_it_was_written(front: Front) -> None:
    with zipfile.ZipFile(io.BytesIO(made(front, "qti", exercises=hostile_exercises()))) as package:
        items = [ElementTree.fromstring(package.read(name)) for name in package.namelist()[:-1]]  # noqa: S314
    texts = [[one.text for one in item.iter(f"{QTI}simpleAssociableChoice")] for item in items[:2]]
    assert texts == [HOSTILE[:20] * 2, HOSTILE[20:] * 2]
    asked = [[one.text for one in item.iter(f"{QTI}prompt")] for item in items[2 + len(HOSTILE) :]]
    assert asked == [[text] for text in HOSTILE]


def test_a_package_names_each_of_its_items_and_is_equal_for_equal_exercises(front: Front) -> None:
    file = made(front, "qti", lang="en")
    assert file == made(front, "qti", lang="en")
    with zipfile.ZipFile(io.BytesIO(file)) as package:
        manifest = ElementTree.fromstring(package.read("imsmanifest.xml"))  # noqa: S314
        files = [one.get("href") for one in manifest.iter() if one.tag.endswith("}file")]
        assert [*files, "imsmanifest.xml"] == package.namelist()
        items = [ElementTree.fromstring(package.read(str(name))) for name in files]  # noqa: S314
    right = [[value.text for value in item.iter(f"{QTI}correctResponse") for value in value] for item in items]
    pairs, order = ["word-0 gloss-0", "word-1 gloss-1", "word-2 gloss-2"], ["choice-0", "choice-1", "choice-2"]
    assert right == [["choice-1"], ["true"], ["false"], ["choice-1"], pairs, order]
    assert ["".join(one.itertext()) for one in items[3].iter(f"{QTI}p")] == ["The catdog ran\nhome."]
    shown = [one.get("identifier") for one in items[5].iter(f"{QTI}simpleChoice")]
    assert shown == ["choice-1", "choice-2", "choice-0"]
