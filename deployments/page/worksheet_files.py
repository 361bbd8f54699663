"""Exercises as files: plain text, for Word, Moodle's GIFT, cards for Anki, and IMS QTI 2.1.

GIFT: https://docs.moodle.org/en/GIFT_format. Cards: https://docs.ankiweb.net/importing/text-files.html.
QTI: https://www.imsglobal.org/question/qtiv2p1/imsqti_infov2p1.html.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from deployments.page.docx_file import Sheet
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


def _letter(index: int) -> str:
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
            yield f"{index + 1}) {item.word}  ___        {_letter(index)}) {gloss}"
        return
    for index, line in enumerate(_items(exercise), start=1):
        yield f"{index}) {line}"


def _items(exercise: Exercise) -> Iterator[str]:
    if isinstance(exercise, Questions | GapFill):
        for item in exercise.items:
            options = "   ".join(f"{_letter(index)}) {option}" for index, option in enumerate(item.options))
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
        answers = [f"{_letter(item.answer)}) {item.options[item.answer]}" for item in exercise.items]
    elif isinstance(exercise, TrueFalse):
        answers = [_TRUE if item.answer else _FALSE for item in exercise.items]
    elif isinstance(exercise, Matching):
        answers = [_letter(exercise.shown.index(index)) for index in range(len(exercise.items))]
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
            cards += [(_asked(item), item.options[item.answer]) for item in exercise.items]
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


_QTI: Final = "http://www.imsglobal.org/xsd/imsqti_v2p1"
_PACKAGE: Final = "http://www.imsglobal.org/xsd/imscp_v1p1"
_MATCH_CORRECT: Final = "http://www.imsglobal.org/question/qti_v2p1/rptemplates/match_correct"
_ITEM_TYPE: Final = "imsqti_item_xmlv2p1"
_RESPONSE: Final = "RESPONSE"

_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Of each file, so that equal exercises make equal packages."""


def write_qti(request: WorksheetRequest) -> bytes:
    """Write exercises as a QTI package: one XML file for each item, and a manifest; a dictation has no item in it."""
    items = {
        f"item-{number}-{index}": item
        for number, exercise in enumerate(request.exercises, start=1)
        for index, item in enumerate(_qti_items(exercise, request.lang or "en"), start=1)
    }
    manifest = Element("manifest", {"xmlns": _PACKAGE, "identifier": "manifest"})
    metadata = SubElement(manifest, "metadata")
    SubElement(metadata, "schema").text = "QTIv2.1 Package"
    SubElement(metadata, "schemaversion").text = "1.0.0"
    SubElement(manifest, "organizations")
    resources = SubElement(manifest, "resources")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for name, item in items.items():
            item.set("identifier", name)
            item.set("title", name)
            resource = SubElement(
                resources, "resource", {"identifier": name, "type": _ITEM_TYPE, "href": f"{name}.xml"}
            )
            SubElement(resource, "file", {"href": f"{name}.xml"})
            _add(package, f"{name}.xml", item)
        _add(package, "imsmanifest.xml", manifest)
    return file.getvalue()


def _add(package: zipfile.ZipFile, name: str, root: Element) -> None:
    package.writestr(zipfile.ZipInfo(name, _FIXED_TIME), tostring(root, encoding="UTF-8", xml_declaration=True))


def _qti_items(exercise: Exercise, lang: str) -> Iterator[Element]:
    """Yield the items of an exercise as documents."""
    if isinstance(exercise, Questions):
        for question in exercise.items:
            yield _question(question, lang)
    elif isinstance(exercise, GapFill):
        for gap in exercise.items:
            yield _gap(gap, lang)
    elif isinstance(exercise, TrueFalse):
        for statement in exercise.items:
            item, body = _item(lang, "single", ["true" if statement.answer else "false"])
            choices = [("true", _TRUE), ("false", _FALSE)]
            _add_choices(body, "choiceInteraction", statement.statement, choices, maxChoices="1")
            yield item
    elif isinstance(exercise, Order):
        yield _order(exercise, lang)
    elif isinstance(exercise, Matching):
        yield _matching(exercise, lang)


def _item(lang: str, cardinality: str, right: Iterable[str], base: str = "identifier") -> tuple[Element, Element]:
    """Return an item without its interaction, and its body."""
    item = Element("assessmentItem", {"xmlns": _QTI, "adaptive": "false", "timeDependent": "false", "xml:lang": lang})
    response = {"identifier": _RESPONSE, "cardinality": cardinality, "baseType": base}
    correct = SubElement(SubElement(item, "responseDeclaration", response), "correctResponse")
    for value in right:
        SubElement(correct, "value").text = value
    score = {"identifier": "SCORE", "cardinality": "single", "baseType": "float"}
    SubElement(SubElement(SubElement(item, "outcomeDeclaration", score), "defaultValue"), "value").text = "0"
    body = SubElement(item, "itemBody")
    SubElement(item, "responseProcessing", {"template": _MATCH_CORRECT})
    return item, body


def _add_choices(body: Element, kind: str, prompt: str, choices: Iterable[tuple[str, str]], **attributes: str) -> None:
    interaction = SubElement(body, kind, {"responseIdentifier": _RESPONSE, "shuffle": "false", **attributes})
    SubElement(interaction, "prompt").text = prompt
    for identifier, text in choices:
        SubElement(interaction, "simpleChoice", {"identifier": identifier}).text = text


def _named(texts: Sequence[str], prefix: str = "choice") -> list[tuple[str, str]]:
    return [(f"{prefix}-{index}", text) for index, text in enumerate(texts)]


def _question(question: Question, lang: str) -> Element:
    item, body = _item(lang, "single", [f"choice-{question.answer}"])
    _add_choices(body, "choiceInteraction", question.question, _named(question.options), maxChoices="1")
    return item


def _gap(gap: Gap, lang: str) -> Element:
    item, body = _item(lang, "single", [f"choice-{gap.answer}"])
    sentence = SubElement(body, "p")
    sentence.text = gap.before
    interaction = SubElement(sentence, "inlineChoiceInteraction", {"responseIdentifier": _RESPONSE, "shuffle": "false"})
    for identifier, text in _named(gap.options):
        SubElement(interaction, "inlineChoice", {"identifier": identifier}).text = text
    interaction.tail = gap.after
    return item


def _order(order: Order, lang: str) -> Element:
    item, body = _item(lang, "ordered", [f"choice-{index}" for index in range(len(order.items))])
    named = _named([one.sentence for one in order.items])
    _add_choices(body, "orderInteraction", order.instruction or "", [named[place] for place in order.shown])
    return item


def _matching(matching: Matching, lang: str) -> Element:
    pairs = range(len(matching.items))
    item, body = _item(lang, "multiple", [f"word-{pair} gloss-{pair}" for pair in pairs], "directedPair")
    interaction = SubElement(
        body,
        "matchInteraction",
        {"responseIdentifier": _RESPONSE, "shuffle": "false", "maxAssociations": str(len(pairs))},
    )
    SubElement(interaction, "prompt").text = matching.instruction or ""
    glosses = _named([pair.gloss for pair in matching.items], "gloss")
    for choices in (
        _named([pair.word for pair in matching.items], "word"),
        [glosses[place] for place in matching.shown],
    ):
        matched = SubElement(interaction, "simpleMatchSet")
        for identifier, text in choices:
            choice = {"identifier": identifier, "matchMax": "1"}
            SubElement(matched, "simpleAssociableChoice", choice).text = text
    return item


WORKSHEET_FORMATS: Final[dict[FileFormat, WorksheetFormat]] = {
    "txt": WorksheetFormat(write_text, "txt"),
    "docx": WorksheetFormat(write_worksheet, "docx"),
    "gift": WorksheetFormat(write_gift, "gift"),
    "qti": WorksheetFormat(write_qti, "zip"),
    "tsv": WorksheetFormat(write_cards, "tsv"),
}
