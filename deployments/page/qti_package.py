"""Exercises as a package of IMS QTI 2.1, which learning platforms import: one XML file for each item, and a manifest.

https://www.imsglobal.org/question/qtiv2p1/imsqti_infov2p1.html
"""

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from deployments.protocol.documents import (
    Dictation,
    Exercise,
    Gap,
    GapFill,
    Matching,
    Order,
    Question,
    Questions,
    TrueFalse,
    WorksheetRequest,
)

_QTI: Final = "http://www.imsglobal.org/xsd/imsqti_v2p1"
_PACKAGE: Final = "http://www.imsglobal.org/xsd/imscp_v1p1"
_MATCH_CORRECT: Final = "http://www.imsglobal.org/question/qti_v2p1/rptemplates/match_correct"
_ITEM_TYPE: Final = "imsqti_item_xmlv2p1"
_RESPONSE: Final = "RESPONSE"
_TRUE_FALSE: Final = (("true", "✓"), ("false", "✗"))

_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Of each file, so that equal exercises make equal packages."""


def write_qti(request: WorksheetRequest) -> bytes:
    """Write exercises as a QTI package, and return the bytes of the ZIP file; a dictation has no item in it."""
    items = {
        f"item-{number}-{index}": item
        for number, exercise in enumerate(request.exercises, start=1)
        for index, item in enumerate(_items(exercise, request.lang or "en"), start=1)
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


def _items(exercise: Exercise, lang: str) -> Iterator[Element]:
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
            _add_choices(body, "choiceInteraction", statement.statement, _TRUE_FALSE, maxChoices="1")
            yield item
    elif isinstance(exercise, Order):
        yield _order(exercise, lang)
    elif isinstance(exercise, Matching):
        yield _matching(exercise, lang)
    elif not isinstance(exercise, Dictation):
        raise TypeError(type(exercise))


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
