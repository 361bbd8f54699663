"""A file of lines for a batch, some of them bad, and what must become of each."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.checker import assert_only_listed_words
from tests.e2e.service import MODEL

URL = "/v1/chat/completions"
INLINE = ("river", "stone", "lamp", "the", "is", "a", "old", "we", "see", "under")

QUESTIONS = ("Tell me about a dog.", "Describe the sea.", "What is in the house?", "Say something kind.")

VOCABULARIES: tuple[dict[str, Any], ...] = (
    {"vocab_lang": "en", "vocab_n_words": 300},
    {"vocab_lang": "es", "vocab_n_words": 500},
    {"vocab": {"lang": "en", "n_words": 1000, "end": "sentence"}},
    {"vocab": {"words": list(INLINE)}},
    {"vocab": {"lang": "en", "n_words": 700, "extra_words": ["Ana"], "exclude_words": ["the"]}},
    {},
)

BAD: dict[str, str | None] = {
    "bad JSON": "invalid_json_line",
    "not UTF-8": "invalid_json_line",
    "blank": "blank_line",
    "no name": "missing_custom_id",
    "same name": "duplicate_custom_id",
    "no method": "invalid_method",
    "other route": "invalid_url",
    "stream": "invalid_request",
    "unknown model": "model_not_found",
    "unknown vocab field": "invalid_request",
    "image": "invalid_request",
    "unknown list": "invalid_vocabulary",
}
"""What is wrong with a line, and the code that its error must have."""


@dataclass(frozen=True)
class Sent:
    """A line as it was sent; ``fault`` is one of ``BAD``, or None."""

    number: int
    custom_id: str | None
    text: bytes
    vocabulary: dict[str, Any]
    fault: str | None


def lines(num_lines: int = 500, max_tokens: int = 12) -> list[Sent]:
    """Every ninth is bad, each kind as often as the others."""
    return list(_lines(num_lines, max_tokens))


def _lines(num_lines: int, max_tokens: int) -> Iterator[Sent]:
    kinds = list(BAD)
    for number in range(1, num_lines + 1):
        fault = kinds[(number // 9) % len(kinds)] if number % 9 == 5 else None
        vocabulary = VOCABULARIES[number % len(VOCABULARIES)]
        body: dict[str, Any] = {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"{QUESTIONS[number % len(QUESTIONS)]} ({number})"}],
            "max_tokens": max_tokens,
            "seed": number,
            **vocabulary,
        }
        line: dict[str, Any] = {"custom_id": f"row-{number}", "method": "POST", "url": URL, "body": body}
        yield _spoilt(number, line, vocabulary, fault)


def _spoilt(number: int, line: dict[str, Any], vocabulary: dict[str, Any], fault: str | None) -> Sent:
    body = line["body"]
    if fault == "no name":
        del line["custom_id"]
    elif fault == "same name":
        line["custom_id"] = f"row-{number - 1}"
    elif fault == "no method":
        del line["method"]
    elif fault == "other route":
        line["url"] = "/v1/embeddings"
    elif fault == "stream":
        body["stream"] = True
    elif fault == "unknown model":
        body["model"] = "gpt-4"
    elif fault == "unknown vocab field":
        body["vocab_word"] = 3
    elif fault == "image":
        part = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}
        body["messages"][0]["content"] = [part]
    elif fault == "unknown list":
        line["body"] = {**body, "vocab": {"lang": "xx", "n_words": 9}}
        for name in ("vocab_lang", "vocab_n_words"):
            line["body"].pop(name, None)
    text = json.dumps(line, ensure_ascii=False).encode()
    if fault == "bad JSON":
        text = text[:-9]
    elif fault == "not UTF-8":
        text = text.replace(b'"content": "', b'"content": "\xff')
    elif fault == "blank":
        text = b"  " if number % 2 else b""
    custom_id = None if fault in ("bad JSON", "not UTF-8", "blank", "same name") else line.get("custom_id")
    return Sent(number, custom_id, text, vocabulary, fault)


def assert_accounted(sent: list[Sent], output: list[dict[str, Any]], errors: list[dict[str, Any]]) -> None:
    """Each line in exactly one file, each error with its line and cause, each answer in its own words."""
    assert len(output) + len(errors) == len(sent)
    good = {line.custom_id: line for line in sent if line.fault is None}
    assert Counter(line["custom_id"] for line in output) == Counter(dict.fromkeys(good, 1))
    bad = {line.number: line for line in sent if line.fault is not None}
    assert sorted(error["error"]["line"] for error in errors) == sorted(bad)
    assert len({line["id"] for line in output + errors}) == len(sent)
    for error in errors:
        line = bad[error["error"]["line"]]
        assert error["error"]["code"] == BAD[line.fault or ""], error
        assert error["error"]["message"].startswith(f"Line {line.number}: "), error
        assert error["custom_id"] == line.custom_id
    for answer in output:
        _assert_good(answer, good[answer["custom_id"]])


def _assert_good(answer: dict[str, Any], line: Sent) -> None:
    assert answer["error"] is None
    assert answer["response"]["status_code"] == 200
    body = answer["response"]["body"]
    text = body["choices"][0]["message"]["content"]
    assert body["usage"]["completion_tokens"] >= 1
    vocab = line.vocabulary.get("vocab", {})
    if not line.vocabulary:
        assert "vocab" not in body or body["vocab"] is None
    elif "words" in vocab:
        assert_only_listed_words(text, "", len(INLINE), INLINE)
    elif "extra_words" in vocab:
        assert_only_listed_words(text, "en", 700, extra_words=("Ana",), exclude_words=("the",))
    elif "end" in vocab:
        assert_only_listed_words(text, "en", 1000, end="sentence")
    else:
        assert_only_listed_words(text, line.vocabulary["vocab_lang"], line.vocabulary["vocab_n_words"])
