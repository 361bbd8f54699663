"""What a service is asked for in languages written without spaces, and how each answer is judged: as a plain string."""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from tests.segmented_oracle import SegmentedOracle
from vocab.lists.wordlists import load_word_list, reference_dictionary

QUESTIONS: Final = {
    "zh": "请讲一个关于狗的故事。",
    "zh-Hant": "請講一個關於狗的故事。",
    "ja": "犬の話をしてください。",
    "th": "เล่าเรื่องหมาให้ฟังหน่อย",
}
LANGUAGES: Final = tuple(QUESTIONS)

OWN_WORDS: Final = {
    "zh": ("我", "我们", "你", "去", "学校", "学", "狗", "大", "大学", "好", "看", "KTV", "A股", "吃饭", "𠮷"),
    "zh-Hant": ("我", "我們", "你", "去", "學校", "狗", "大", "大學", "好", "看", "吃飯"),
    "ja": ("私", "は", "犬", "が", "好き", "です", "学校", "に", "行く", "コーヒー", "の", "Tシャツ"),
    "th": ("หมา", "กิน", "ข้าว", "ไป", "โรงเรียน", "ดี", "มาก", "เขา", "น้ำ"),
}
EXTRA: Final = {
    "zh": ["小虎队", "龘"],
    "zh-Hant": ["小虎隊", "龘"],
    "ja": ["トトロ", "龘"],
    "th": ["ฮิปโป", "กขค"],
}
WANTED: Final = {"zh": "老师", "zh-Hant": "老師", "ja": "先生", "th": "ครู"}

BETWEEN_SENTENCES: Final = re.compile(r"[。！？….!?\n]+|(?<![,:]) ")
"""In Thai a blank ends a sentence too, but not after a pause."""


@lru_cache(maxsize=len(LANGUAGES))
def dictionary_of(language: str) -> frozenset[str]:
    return frozenset(reference_dictionary(language))


@lru_cache(maxsize=len(LANGUAGES))
def words_of(language: str) -> tuple[str, ...]:
    return load_word_list(language, None).words


@dataclass(frozen=True)
class Question:
    """One request: its list, the members of ``vocab`` besides, and the fields of the request."""

    language: str
    n_words: int | None
    """None for a list of its own."""
    vocab: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        own = {"words": list(OWN_WORDS[self.language])} if self.n_words is None else {"n_words": self.n_words}
        messages = [{"role": "user", "content": QUESTIONS[self.language]}]
        return {"messages": messages, "vocab": {"lang": self.language, **own, **self.vocab}, **self.fields}

    @property
    def oracle(self) -> SegmentedOracle:
        vocab, own = self.vocab, OWN_WORDS[self.language] if self.n_words is None else ()
        listed = own or words_of(self.language)[: self._reach]
        extra = {*vocab.get("extra_words", ()), *(one["word"] for one in vocab.get("must_use", ()))}
        punctuation = vocab.get("punctuation", "standard")
        return SegmentedOracle(
            self.language,
            # A word that is left out is still one by which texts are cut.
            dictionary_of(self.language) | set(own) | extra,
            (set(listed) - set(vocab.get("exclude_words", ()))) | extra,
            segmentation=vocab.get("segmentation", "longest"),
            numbers=vocab.get("numbers", False),
            layout=vocab.get("layout", "prose"),
            end=vocab.get("end", "word" if punctuation == "none" else "sentence"),
            punctuation=punctuation,
        )

    @property
    def _reach(self) -> int | None:
        return int(self.vocab["new_words"]["n_words"]) if "new_words" in self.vocab else self.n_words

    def faults(self, text: str, finish_reason: str) -> Iterator[str]:
        """What is wrong with an answer."""
        if "response_format" in self.fields:
            for one in json.loads(text).values():
                yield from self._faults_of_text(one)
            return
        if text or finish_reason == "length":
            yield from self._faults_of_text(text)
        else:
            yield "no text"

    def _faults_of_text(self, text: str) -> Iterator[str]:
        oracle, vocab = self.oracle, self.vocab
        if not oracle.is_text(text):
            yield "no text of the list"
            return
        # With ``any`` what an author asks is refused.
        words = [text[start:end] for start, end in oracle.words(text)]
        for one in vocab.get("must_use", ()):
            if words.count(one["word"]) < one.get("count", 1):
                yield f"{one['word']} is missing"
        if "new_words" in vocab:
            known = set(words_of(self.language)[: self.n_words]) | set(vocab.get("extra_words", ()))
            if len(new := set(words) - known) > vocab["new_words"]["max"]:
                yield f"too many new words: {new}"
        lengths = [len(found) for one in BETWEEN_SENTENCES.split(text) if (found := oracle.words(one))]
        if not vocab.get("min_sentences", 0) <= len(lengths) <= vocab.get("max_sentences", len(lengths)):
            yield f"{len(lengths)} sentences"
        if max(lengths, default=0) > vocab.get("max_sentence_words", len(text)):
            yield f"a sentence of {max(lengths)} words"


CONTROLS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "plain": ({}, {}),
    "any": ({"segmentation": "any"}, {}),
    "words": ({"end": "word"}, {}),
    "any words": ({"segmentation": "any", "end": "word"}, {}),
    "numbers": ({"numbers": True}, {}),
    "any numbers": ({"numbers": True, "segmentation": "any"}, {}),
    "lines": ({"layout": "lines"}, {}),
    "basic": ({"punctuation": "basic"}, {}),
    "none": ({"punctuation": "none"}, {}),
    "none any": ({"punctuation": "none", "segmentation": "any", "layout": "lines"}, {}),
    "short sentences": ({"max_sentence_words": 4, "min_sentences": 2, "max_sentences": 3}, {"max_tokens": 160}),
    "new words": ({"new_words": {"n_words": 20_000, "per_100": 20, "max": 2}}, {"max_tokens": 100}),
    "best of": ({}, {"best_of": 3}),
    "posterior": ({"select": "posterior"}, {"best_of": 3}),
    "beams": ({}, {"num_beams": 3}),
    "beams any": ({"segmentation": "any"}, {"num_beams": 2}),
    "sentences": ({"search": {"width": 2}}, {"max_tokens": 60}),
    "two": ({}, {"n": 2}),
    "rescue": ({"rescue": True}, {}),
    "rescue any": ({"rescue": 0.5, "segmentation": "any"}, {}),
    "no repeats": ({}, {"no_repeat_ngram_size": 3}),
    "score": ({"score": True}, {}),
}
"""Members of ``vocab`` and fields of a request, by name."""

SCHEMA: Final = {
    "type": "object",
    "properties": {"title": {"type": "string", "x-vocab": {"max_words": 6}}, "text": {"type": "string"}},
    "required": ["title", "text"],
    "additionalProperties": False,
}
JSON: Final = {"type": "json_schema", "json_schema": {"name": "text", "schema": SCHEMA}}


def question_of(language: str, n_words: int | None, name: str, number: int) -> Question | None:
    """A question with one of ``CONTROLS``, or ``changed``, ``wanted`` or ``json``; None where there is none."""
    randomness = random.Random(f"{language} {n_words} {name} {number}")
    vocab, fields = CONTROLS.get(name, ({}, {}))
    if name == "new words" and n_words is None:
        return None
    if name == "changed":
        listed = OWN_WORDS[language] if n_words is None else words_of(language)[:n_words]
        vocab = {"extra_words": EXTRA[language], "exclude_words": randomness.sample(listed[:20], 3)}
        vocab["segmentation"] = randomness.choice(("longest", "any"))
    if name == "wanted":
        vocab, fields = {"must_use": [{"word": WANTED[language]}, {"word": EXTRA[language][0]}]}, {"max_tokens": 160}
    if name == "json":
        fields = {"response_format": JSON, "max_tokens": 160}
    is_drawn = bool({"best_of", "n"} & fields.keys() or "search" in vocab)
    chosen = {
        "seed": number,
        "temperature": 1 if is_drawn else randomness.choice((0, 1)),
        "max_tokens": randomness.choice((8, 12, 20, 30)),
        "stream": randomness.random() < 0.5,
    }
    return Question(language, n_words, dict(vocab), chosen | fields)
