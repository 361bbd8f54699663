"""Exercises as files, over a real connection, read back by other programs' readers where there is one."""

import copy
import csv
import io
import re
import zipfile
from typing import Any
from xml.etree import ElementTree

import docx
import pytest

from deployments.protocol.documents import DOCX
from tests.deployments.front import Front, assert_error
from vocab.documents import text_of

WORKSHEET = "/v1/documents/worksheet"
QTI = "{http://www.imsglobal.org/xsd/imsqti_v2p1}"

EXERCISES: list[dict[str, Any]] = [
    {
        "kind": "questions",
        "instruction": "Which answer is right?",
        "items": [
            {
                "question": "What did {he} say: a = b?",
                "options": ["~no~", "yes -> no", "x#y"],
                "answer": 1,
                "source": {"start": 3, "end": 12},
            }
        ],
    },
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


def test_gift_escapes_its_own_marks(front: Front) -> None:
    questions = made(front, "gift").decode().split("\n\n")
    assert questions[0] == r"::1.1:: What did \{he\} say\: a \= b? {~\~no\~ =yes → no ~x\#y}"
    assert questions[1:3] == ["::2.1:: The dog <ran>. {T}", "::2.2:: The dog slept. {F}"]
    assert questions[3] == "::3.1:: The {~cat =dog} ran home."
    assert questions[4].splitlines()[1:4] == [
        "  =an animal & a friend -> dog",
        "  =where you live -> home",
        "  =to go fast -> run",
    ]
    # In the order in which they are shown, each with its place.
    assert re.findall(r"=(\w+)\. -> (\d)", questions[5]) == [("Then", "2"), ("Last", "3"), ("First", "1")]
    assert len(questions) == 6


def test_cards_have_one_row_each(front: Front) -> None:
    head: list[str] = []
    rows: list[str] = []
    for line in made(front, "tsv").decode().splitlines():
        (head if line.startswith("#") else rows).append(line)
    assert head == ["#separator:tab", "#html:true", "#columns:Front\tBack"]
    assert list(csv.reader(rows, delimiter="\t")) == [
        ["The __________ ran home.", "dog"],
        ["an animal &amp; a friend", "dog"],
        ["where you live", "home"],
        ["to go fast", "run"],
    ]


def test_a_package_names_each_of_its_items(front: Front) -> None:
    with zipfile.ZipFile(io.BytesIO(made(front, "qti", lang="en"))) as package:
        manifest = ElementTree.fromstring(package.read("imsmanifest.xml"))  # noqa: S314
        files = [one.get("href") for one in manifest.iter() if one.tag.endswith("}file")]
        assert [*files, "imsmanifest.xml"] == package.namelist()
        items = [ElementTree.fromstring(package.read(str(name))) for name in files]  # noqa: S314
    right = [[value.text for value in item.iter(f"{QTI}correctResponse") for value in value] for item in items]
    assert right == [
        ["choice-1"],
        ["true"],
        ["false"],
        ["choice-1"],
        ["word-0 gloss-0", "word-1 gloss-1", "word-2 gloss-2"],
        ["choice-0", "choice-1", "choice-2"],
    ]
    shown = [one.get("identifier") for one in items[5].iter(f"{QTI}simpleChoice")]
    assert shown == ["choice-1", "choice-2", "choice-0"]


def test_equal_exercises_make_equal_packages(front: Front) -> None:
    assert made(front, "qti") == made(front, "qti")


@pytest.mark.parametrize(
    ("place", "member", "value", "param"),
    [
        (0, "kind", "crossword", "exercises[0]"),
        (0, "items", [], "exercises[0].items"),
        (3, "shown", [0, 1], "exercises[3]"),
        (4, "shown", [0, 0, 1], "exercises[4]"),
        (5, "shown", [0], "exercises[5].shown"),
    ],
)
def test_a_wrong_exercise_is_refused_by_its_place(
    front: Front, place: int, member: str, value: Any, param: str
) -> None:
    wrong = copy.deepcopy(EXERCISES)
    wrong[place][member] = value
    assert_error(front.post(WORKSHEET, {"format": "gift", "exercises": wrong}), 400, param=param)


def test_an_answer_is_one_of_its_options(front: Front) -> None:
    wrong = copy.deepcopy(EXERCISES)
    wrong[0]["items"][0]["answer"] = 3
    error = front.post(WORKSHEET, {"format": "gift", "exercises": wrong})
    assert "one of its 3 options" in error.json()["error"]["message"]
    assert front.post(WORKSHEET, {"format": "pdf", "exercises": EXERCISES}).status_code == 400
    assert front.post(WORKSHEET, {"format": "gift", "exercises": []}).status_code == 400
