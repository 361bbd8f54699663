"""Exercises as files: plain text, for Word, Moodle's GIFT, IMS QTI, and cards for Anki.

GIFT: https://docs.moodle.org/en/GIFT_format. Cards: https://docs.ankiweb.net/importing/text-files.html.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from deployments.page.docx_file import Sheet
from deployments.page.qti_package import write_qti
from deployments.protocol.documents import (
    Choice,
    Dictation,
    Exercise,
    FileFormat,
    Gap,
    GapFill,
    Matching,
    Order,
    Question,
    Questions,
    TrueFalse,
    WorksheetRequest,
    paragraphs,
)

_KEY: Final = "Key"
_GAP: Final = "__________"
_TRUE, _FALSE = "✓", "✗"
_EMPTY_LINE: Final = "_" * 60

_GIFT_HTML: Final = "[html]"
_GIFT_MARKS: Final = re.compile(r"[~=#{}:]")
_LEAST_GIFT_PAIRS: Final = 3
"""Of a matching exercise; Moodle refuses fewer."""

_CARD_COLUMNS: Final = ("Front", "Back")

_NEW_LINE: Final = re.compile(r"\r\n|[\r\n]")


class WorksheetFormat(NamedTuple):
    """How exercises become a file; ``write`` returns its bytes."""

    write: Callable[[WorksheetRequest], bytes]
    ending: str


def letter(index: int) -> str:
    """Return what stands before an option: a to z."""
    return chr(ord("a") + index)


def write_text(request: WorksheetRequest) -> bytes:
    """Write exercises as plain text, the key after them."""
    parts = [[request.title or ""], paragraphs(request.text or "")]
    parts += [[_heading(number, one), *_lines(one)] for number, one in enumerate(request.exercises, start=1)]
    parts.append([(request.key_title or "").strip() or _KEY])
    parts += [[_heading(number, one), *_key(one)] for number, one in enumerate(request.exercises, start=1)]
    blocks = ("\n".join(part) for part in parts)
    return ("\n\n".join(block for block in blocks if block.strip()) + "\n").encode()


def write_worksheet(request: WorksheetRequest) -> bytes:
    """Write exercises as a DOCX to print, the key on a page of its own."""
    sheet = Sheet(request.title, request.lang, request.font_size)
    for text in paragraphs(request.text or ""):
        sheet.add([(text, False)])
    for number, exercise in enumerate(request.exercises, start=1):
        sheet.add_heading(_heading(number, exercise))
        for line in _lines(exercise):
            sheet.add([(line, False)])
    sheet.add_heading((request.key_title or "").strip() or _KEY, on_new_page=True)
    for number, exercise in enumerate(request.exercises, start=1):
        sheet.add([(_heading(number, exercise), True)])
        for line in _key(exercise):
            sheet.add([(line, False)])
    return sheet.to_bytes()


def _heading(number: int, exercise: Exercise) -> str:
    return f"{number}. {exercise.instruction or ''}".strip()


def _lines(exercise: Exercise) -> Iterator[str]:
    """Yield the lines of an exercise as a learner gets it."""
    if isinstance(exercise, Matching):
        for index, item in enumerate(exercise.items):
            gloss = exercise.items[exercise.shown[index]].gloss
            yield f"{index + 1}) {item.word}  ___        {letter(index)}) {gloss}"
        return
    for index, line in enumerate(_items(exercise), start=1):
        yield f"{index}) {line}"


def _items(exercise: Exercise) -> Iterator[str]:
    if isinstance(exercise, Questions | GapFill):
        for item in exercise.items:
            options = "   ".join(f"{letter(index)}) {option}" for index, option in enumerate(item.options))
            yield f"{_asked(item)}\n{options}"
    elif isinstance(exercise, TrueFalse):
        yield from (f"{item.statement}  ___" for item in exercise.items)
    elif isinstance(exercise, Order):
        yield from (f"___  {exercise.items[place].sentence}" for place in exercise.shown)
    elif isinstance(exercise, Dictation):
        yield from (_EMPTY_LINE for _ in exercise.items)


def _asked(item: Choice) -> str:
    if isinstance(item, Gap):
        return f"{item.before}{_GAP}{item.after}"
    return item.question if isinstance(item, Question) else ""


def _key(exercise: Exercise) -> Iterator[str]:
    """Yield the right answers of an exercise, a line each."""
    answers: Sequence[str]
    if isinstance(exercise, Questions | GapFill):
        answers = [f"{letter(item.answer)}) {item.options[item.answer]}" for item in exercise.items]
    elif isinstance(exercise, TrueFalse):
        answers = [_TRUE if item.answer else _FALSE for item in exercise.items]
    elif isinstance(exercise, Matching):
        answers = [letter(exercise.shown.index(index)) for index in range(len(exercise.items))]
    elif isinstance(exercise, Order):
        answers = [str(place + 1) for place in exercise.shown]
    else:
        answers = [item.sentence for item in exercise.items]
    yield from (f"{index}) {answer}" for index, answer in enumerate(answers, start=1))


def write_gift(request: WorksheetRequest) -> bytes:
    """Write exercises in Moodle's GIFT; a dictation, which has no sound there, is left out."""
    questions = [
        f"::{number}.{index}:: {question}"
        for number, exercise in enumerate(request.exercises, start=1)
        for index, question in enumerate(_gift(exercise), start=1)
    ]
    return ("\n\n".join(questions) + "\n").encode()


def _gift(exercise: Exercise) -> Iterator[str]:
    """Yield the questions of an exercise in GIFT."""
    if isinstance(exercise, Questions | GapFill):
        for item in exercise.items:
            options = " ".join(
                ("=" if index == item.answer else "~") + _gift_text(option) for index, option in enumerate(item.options)
            )
            if isinstance(item, Gap):
                # A gap may begin its sentence.
                yield f"{_GIFT_HTML}{_gift_text(item.before)}{{{options}}}{_gift_text(item.after)}"
            else:
                yield f"{_gift_stem(_asked(item))} {{{options}}}"
    elif isinstance(exercise, TrueFalse):
        yield from (f"{_gift_stem(item.statement)} {{{'T' if item.answer else 'F'}}}" for item in exercise.items)
    elif isinstance(exercise, Matching | Order) and len(exercise.items) >= _LEAST_GIFT_PAIRS:
        if isinstance(exercise, Matching):
            pairs = [(item.gloss, item.word) for item in exercise.items]
        else:
            pairs = [(exercise.items[place].sentence, str(place + 1)) for place in exercise.shown]
        # Each says that it is HTML: the question, whose format they have else, may be without a text.
        listed = "".join(f"\n  ={_gift_stem(first)} -> {_gift_text(second)}" for first, second in pairs)
        yield f"{_gift_stem(exercise.instruction or '')} {{{listed}\n}}".lstrip()


def _gift_stem(text: str) -> str:
    """Return a text that says that it is HTML, as the answers after it are then too; nothing of an empty one."""
    return f"{_GIFT_HTML}{_gift_text(text)}" if text else ""


def _gift_text(text: str) -> str:
    """Return a text as HTML in GIFT, on one line.

    What GIFT has no mark for is a character reference: ``%100%`` is the weight of an answer, ``[plain]`` a format.
    """
    return _GIFT_MARKS.sub(r"\\\g<0>", _html(text, r"[%\[\\]"))


def write_cards(request: WorksheetRequest) -> bytes:
    """Write cards that Anki imports: a gloss and its word, a sentence with a gap and the word in it."""
    cards: list[tuple[str, str]] = []
    for exercise in request.exercises:
        if isinstance(exercise, Matching):
            cards += [(item.gloss, item.word) for item in exercise.items]
        elif isinstance(exercise, GapFill):
            cards += [(f"{item.before}{_GAP}{item.after}", item.options[item.answer]) for item in exercise.items]
    head = ["#separator:tab", "#html:true", "#columns:" + "\t".join(_CARD_COLUMNS)]
    rows = ["\t".join(map(_card_cell, card)) for card in cards]
    return ("\n".join([*head, *rows]) + "\n").encode()


def _card_cell(text: str) -> str:
    """Return a text as a quoted cell of HTML.

    Anki's own ``[sound:…]``, ``[latex]`` and ``{{c1::…}}``, and what a spreadsheet computes, are character references.
    """
    cell = _html(text, r"[\[{]|^[=+\-@\t＝＋－＠]")
    return '"{}"'.format(cell.replace('"', '""'))


def _html(text: str, referred: str) -> str:
    """Return a text as HTML on one line; what ``referred`` matches, a character each, is a reference."""
    html = re.sub(referred, lambda mark: f"&#{ord(mark[0])};", escape(text, quote=False))
    return _NEW_LINE.sub("<br>", html)


WORKSHEET_FORMATS: Final[dict[FileFormat, WorksheetFormat]] = {
    "txt": WorksheetFormat(write_text, "txt"),
    "docx": WorksheetFormat(write_worksheet, "docx"),
    "gift": WorksheetFormat(write_gift, "gift"),
    "qti": WorksheetFormat(write_qti, "zip"),
    "tsv": WorksheetFormat(write_cards, "tsv"),
}
