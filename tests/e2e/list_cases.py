"""What the running service is asked about lists: each option with the checker's rules for it, and mistakes."""

from typing import Any

from tests.checked_lists import Rules
from tests.e2e.service import LISTS

SCHOOL = LISTS["en-school"]
NAMES = ["Xochitl", "Zaragoza", "New York"]

ALL_TOGETHER: Rules = {
    "case": "sentence",
    "numbers": True,
    "punctuation": "basic",
    "layout": "lines",
    "end": "sentence",
    "extra_words": NAMES,
    "exclude_words": ["the"],
}

OPTIONS: dict[str, tuple[dict[str, Any], Rules]] = {
    "case auto": ({"case": "auto"}, {"case": "any"}),
    "case any": ({"case": "any"}, {"case": "any"}),
    "case sentence": ({"case": "sentence"}, {"case": "sentence"}),
    "case listed": ({"case": "listed"}, {"case": "listed"}),
    "numbers": ({"numbers": True}, {"numbers": True}),
    "basic punctuation": ({"punctuation": "basic"}, {"punctuation": "basic"}),
    "full punctuation": ({"punctuation": "full"}, {"punctuation": "full"}),
    "no punctuation": ({"punctuation": "none"}, {"punctuation": "none", "end": "word"}),
    "lines": ({"layout": "lines"}, {"layout": "lines"}),
    "parts of sentences": ({"end": "word"}, {"end": "word"}),
    "extra words": ({"extra_words": NAMES}, {"extra_words": NAMES}),
    "words left out": ({"exclude_words": ["the", "a", "it's"]}, {"exclude_words": ["the", "a", "it's"]}),
    "all together": ({**ALL_TOGETHER}, ALL_TOGETHER),
}  # fmt: skip

ODD_WORDS = ['say"so', "back\\slash", "a]b", "x|y", "n*", "café", "naïve", "::=", "#tag", "{2}", "e\u0301t", "ok"]

MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "vocab.lang", "'words'"),
    ({"lang": "xx"}, "vocab.lang", "Known languages: "),
    ({"lang": "../../etc/passwd"}, "vocab.lang", "Known languages: "),
    ({"lang": "/etc/passwd"}, "vocab.lang", "Known languages: "),
    ({"lang": "%2e%2e"}, "vocab.lang", "Known languages: "),
    ({"lang": "CON"}, "vocab.lang", "Known languages: "),
    ({"lang": "en_US"}, "vocab.lang", "write 'en-US', with hyphens"),
    ({"lang": "EN-SCHOOL"}, "vocab.lang", "Known languages: "),
    ({"lang": "еn"}, "vocab.lang", "Known languages: "),
    ({"lang": "km"}, "vocab.lang", "without spaces"),
    ({"lang": "empty"}, "vocab.lang", "no word"),
    ({"lang": "a\nb"}, "vocab.lang", "control characters"),
    ({"lang": "x" * 10_000}, "vocab.lang", "64 characters"),
    ({"lang": "en-school", "nwords": 5}, "vocab.nwords", "Did you mean 'n_words'?"),
    ({"lang": "en-school", "n_words": 0}, "vocab.n_words", "at least 1"),
    ({"lang": "en-school", "unit": "root"}, "vocab.unit", "'lemma'"),
    ({"lang": "en-school", "end": "sentence", "punctuation": "none"}, "vocab.end", "punctuation"),
    ({"lang": "en-school", "extra_words": ["Ana"], "exclude_words": ["ana"]}, "vocab.extra_words", "one of them"),
    ({"words": ["a"], "unit": "lemma"}, "vocab.unit", "leave"),
    ({"lang": "es", "source": "wordfreq"}, "vocab.source", "is gone"),
    ({"words": ["a"], "safe": False}, "vocab.safe", "leave"),
    ({"words": []}, "vocab.words", "at least 1"),
    ({"words": ["a", "b\x07"]}, "vocab.words[1]", "U+0007"),
    ({"words": ["a", "b\nc"]}, "vocab.words[1]", "U+000A"),
    ({"words": ["a", "\u200bb"]}, "vocab.words[1]", "U+200B"),
    ({"words": ["a", "\u200fb"]}, "vocab.words[1]", "U+200F"),
    ({"words": ["a", "x" * 10_000]}, "vocab.words[1]", "100 characters"),
    ({"words": ["a", 5]}, "vocab.words[1]", "a string"),
    ({"words": ["a"] * 50_001}, "vocab.words", "50000 items"),
    ({"words": ["\x01"] * 10_000}, "vocab.words[0]", "U+0001"),
]
"""A vocabulary, the place that its error names, and a part of the message."""
