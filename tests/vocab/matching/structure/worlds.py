"""Random schemas with their answers, a list for their strings, and walks over masks."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.vocab.toys import STOP, allowed_tokens, can_spell, toy_speller, toy_tokenizer, word_list
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.automaton.trie_builder import build_words
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.matching.structure.answers import AnswerReader
from vocab.matching.structure.graph import Graph
from vocab.matching.structure.rows import StructuredList
from vocab.matching.structure.schema import PreparedSchema, StringKind, prepare
from vocab.matching.structure.states import StructuredStates
from vocab.matching.structure.tokens import StructureTokens
from vocab.options import ListOptions
from vocab.text.reader import TextReader

LISTS = {
    "en": ["dog", "the", "cat", "don't", "a", "i", "Mr.", "well-known"],
    "es": ["perro", "el", "sí", "año", "y"],
    "fr": ["l'", "homme", "eau", "là", "d'", "est"],
    "tr": ["ılık", "iyi", "ev", "o"],
}
PIECES = (
    "the", "th", "ca", "dog", "at", "og", "do", "er", "ño", " the", " dog", " perro", '"the', '"dog', "true", "null",
    "12", ": ", ", ", '{"', '["', '"]', '"}', '":', '": ', '": "', '", "', '",', '."', '?"', '!"', '...",', '."}',
    '"},', '"}]', '."}]', '.",', '.", "', ' "', ': "', '"(', '"“', '” (', ')"', '\\"', '.\\"', '\\",', " (",
)  # fmt: skip

WORDS = ListOptions(end="word")


@dataclass
class World:
    """A schema with a list and a tokenizer."""

    schema: Any
    prepared: PreparedSchema
    structured: StructuredList
    facts: TokenizerFacts
    reader: AnswerReader

    @classmethod
    def of(cls, schema: Any, lang: str = "en", options: ListOptions = WORDS, n_words: int = 10**6) -> "World":
        facts = toy_tokenizer(PIECES)
        listed = word_list(LISTS[lang], lang)
        words = build_words(listed, toy_speller(facts))
        prepared = prepare(schema)
        tokens = FrameTokens.of(facts)

        def states(kind: StringKind) -> ListStates:
            return ListStates(words, frame_for(words, None, kind.options(options), tokens, in_json=True), n_words)

        def reader(kind: StringKind) -> TextReader:
            return TextReader(listed, kind.options(options), n_words)

        made = StructuredList(
            Graph.of(prepared), StructureTokens(facts), [states(kind) for kind in prepared.kinds], prepared.kinds
        )
        return cls(schema, prepared, made, facts, AnswerReader(prepared, reader))

    @property
    def fewest(self) -> int:
        states = StructuredStates(self.structured)
        fewest = states.tokens_to_end(states.start)
        assert fewest is not None
        return fewest

    def spelled(self, tokens: list[int]) -> str:
        return b"".join(self.facts.token_bytes[token] for token in tokens).decode()

    def walk(self, rng: random.Random, max_tokens: int | None) -> str:
        """Draws tokens from the masks until a text ends; checks that masks and steps agree."""
        matcher = Matcher(StructuredStates(self.structured), [STOP], max_tokens)
        tokens: list[int] = []
        while not matcher.is_terminated and (max_tokens is None or len(tokens) < max_tokens):
            allowed = allowed_tokens(matcher, len(self.facts))
            assert allowed, (self.schema, self.spelled(tokens))
            assert STOP in allowed or not matcher.can_stop()
            before = matcher.state
            for token in rng.sample(range(len(self.facts)), 5):
                assert matcher.accept_token(token) == (token in allowed), (self.schema, self.spelled(tokens), token)
                if token in allowed:
                    matcher.rollback(1)
            assert matcher.state == before
            token = STOP if STOP in allowed and rng.random() < 0.5 else rng.choice(sorted(allowed))
            assert matcher.accept_token(token)
            tokens.append(token)
        assert max_tokens is None or matcher.is_terminated, "an answer ends with the stop token"
        return self.spelled([token for token in tokens if token != STOP])

    def accepts(self, text: str) -> bool:
        """Whether some tokens of the tokenizer spell a text that the states allow."""
        return can_spell(StructuredStates(self.structured), self.facts, text)


def random_schema(rng: random.Random, depth: int = 0) -> Any:
    """A schema of the supported subset."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum"]
    if depth < 3:
        kinds += ["object", "object", "array", "array", "anyOf", "dict", "types"]
    kind = rng.choice(kinds)
    if kind == "object":
        names = rng.sample(["a", "the", "dog", 'q"', "ñ", "b c", ""], rng.randint(0, 3))
        members = {name: random_schema(rng, depth + 1) for name in names}
        required = [name for name in names if rng.random() < 0.7]
        return {"type": "object", "properties": members, "required": required, "additionalProperties": False}
    if kind == "array":
        least = rng.randint(0, 2)
        bounds = {"minItems": least, "maxItems": least + rng.randint(0, 2)} if rng.random() < 0.7 else {}
        return {"type": "array", "items": random_schema(rng, depth + 1), **bounds}
    if kind == "anyOf":
        return {"anyOf": [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    if kind == "dict":
        return {"type": "object", "additionalProperties": random_schema(rng, depth + 1)}
    if kind == "types":
        return {"type": rng.sample(["string", "integer", "null", "boolean"], 2)}
    if kind == "enum":
        return {"enum": rng.sample(["the", 'a "b"', "Z\\", 1, 2.5, None, True, ["dog"], {}], rng.randint(1, 3))}
    if kind == "string":
        options = [{}, {"end": "sentence"}, {"max_words": 2}, {"punctuation": "none"}, {"min_sentences": 2}]
        return {"type": "string", **({"x-vocab": rng.choice(options)} if rng.random() < 0.5 else {})}
    if kind in ("integer", "number") and rng.random() < 0.5:
        return {"type": kind, "minimum": rng.randint(-5, 5), "maximum": rng.randint(6, 120)}
    return {"type": kind}


def random_answer(rng: random.Random, schema: Any, words: list[str]) -> Any:
    """A value that fits a schema, with strings of a few words."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return random_answer(rng, rng.choice(schema["anyOf"]), words)
    kind = schema["type"]
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if kind == "object":
        if "properties" not in schema:
            return {rng.choice(words): random_answer(rng, schema["additionalProperties"], words) for _ in range(2)}
        return {
            name: random_answer(rng, one, words)
            for name, one in schema["properties"].items()
            if name in schema["required"] or rng.random() < 0.5
        }
    if kind == "array":
        least = schema.get("minItems", 0)
        num = rng.randint(least, schema.get("maxItems", least + 3))
        return [random_answer(rng, schema["items"], words) for _ in range(num)]
    if kind == "string":
        return random_text(rng, words, schema.get("x-vocab", {}))
    if kind in ("integer", "number"):
        return rng.randint(schema.get("minimum", -1200), schema.get("maximum", 99))
    return rng.random() < 0.5 if kind == "boolean" else None


def random_text(rng: random.Random, words: list[str], options: dict[str, Any]) -> str:
    sentences = [
        " ".join(rng.choices(words, k=rng.randint(1, min(options.get("max_words", 3), 3))))
        for _ in range(options.get("min_sentences", 1))
    ]
    if options.get("punctuation") == "none":
        return sentences[0]
    ends = options.get("end") == "sentence" or len(sentences) > 1 or rng.random() < 0.5
    return " ".join(sentence + "." for sentence in sentences) if ends else sentences[0]


def whole_words(lang: str) -> list[str]:
    """The words that a text may end with, without elisions."""
    return [word for word in LISTS[lang] if not word.endswith("'")]


def parts(rng: random.Random, text: str) -> Iterator[str]:
    """A text in random parts, as a stream has it."""
    while text:
        size = rng.randint(1, 6)
        yield text[:size]
        text = text[size:]


def dumped(value: Any) -> str:
    """JSON as answers have it: xgrammar writes the strings of a schema so."""
    return json.dumps(value, ensure_ascii=False)
