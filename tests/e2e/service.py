"""What the tests of the real application share: its lists, a client, and one way to ask."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

KEY = "changeme"
MODEL = "SmolLM2-135M-Instruct"

LONG_WORD = "Donaudampfschiffahrtselektrizitätenhauptbetriebswerkbauunter"

LISTS: dict[str, tuple[str, ...]] = {
    "en-odd": (
        "the", "a", "is", "dog", "catalogue", "don't", "l'", "well-known", "in front of", "café", "naïve",
        'so"called', "(sic)", "über", "goin'", "Monday", LONG_WORD, "rock'n'roll", "[x]", "back\\slash", "it",
    ),
    "fr-odd": ("l'", "homme", "est", "là", "un", "chien", "l'un", "d'", "eau", "aujourd'hui"),
    "prefixes": ("the", "international", "house", "seventeen", "understanding", "in", "a"),
}  # fmt: skip
"""The 60-letter word is long for a reason; "so"called" and its like hold marks that a text may also have."""


@dataclass(frozen=True)
class Answer:
    """One answer, however it was asked for."""

    text: str
    finish_reason: str
    vocab: dict[str, Any] | None


@dataclass(frozen=True)
class Service:
    """The running application."""

    url: str
    client: openai.OpenAI
    log_path: Path

    def ask(self, question: str, vocabulary: tuple[str, int] | None = None, **fields: Any) -> Answer:
        """Asks one question; ``stream=True`` reads the answer as a stream."""
        extra = {} if vocabulary is None else {"vocab_lang": vocabulary[0], "vocab_n_words": vocabulary[1]}
        extra |= fields.pop("extra_body", {})
        messages = [{"role": "user", "content": question}]
        create: Any = self.client.chat.completions.create
        made = create(model=MODEL, messages=messages, extra_body=extra, **fields)
        if fields.get("stream"):
            return _read_stream(made)
        choice = made.choices[0]
        return Answer(choice.message.content, choice.finish_reason, (made.model_extra or {}).get("vocab"))


def _read_stream(chunks: Any) -> Answer:
    text, finish_reason, vocab, is_last = "", "", None, False
    for chunk in chunks:
        assert not is_last, "a chunk came after the one with the vocab block"
        vocab = (chunk.model_extra or {}).get("vocab")
        is_last = vocab is not None
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish_reason = choice.finish_reason or finish_reason
    return Answer(text, finish_reason, vocab)
