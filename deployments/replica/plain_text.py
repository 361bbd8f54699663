"""Keep a client's text from being read as the tokenizer's special tokens.

vLLM renders the chat template to one string and tokenizes it with special tokens recognised, so a message that
spells ``<|im_end|>`` would end the turn. Wherever a special token would start, an invisible character is inserted
after its first one: the model reads the same marks, as ordinary text. The constructor proves with the tokenizer
itself that no special token survives.

Where that text ends decides how words of a list go on after it (``reader_after_text``).
"""

import re
from typing import Any, Final

from deployments.contract import ChatBody, prompts_of
from deployments.errors import EngineError
from vocab.errors import PrefillError
from vocab.text.reader import TextReader

SEPARATORS: Final = ("\u200b", "\u2060", " ")
"""Tried in this order: zero-width space, word joiner; a blank where a tokenizer drops both before it looks."""

_TAG = re.compile(r"<\|.*\|>", re.DOTALL)


_UNREADABLE: Final = "\ufffd"
"""What a tokenizer makes of bytes that are no character."""

_END_CHARACTERS: Final = 16


class PlainText:
    """Rewrites text so that the tokenizer, one of transformers', finds no special token in it.

    Raises:
        ValueError: No separator hides every special token of this tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        special = _special_tokens(tokenizer)
        # A token of one character cannot be split; no chat format uses one.
        spelled = {text: number for text, number in special.items() if len(text) > 1}
        self._tokenizer = tokenizer
        self._special_texts, self._special_ids = tuple(spelled), frozenset(special.values())
        self._pattern = re.compile(f"(?={_trie_pattern(spelled)})(.)", re.DOTALL) if spelled else None
        self._separator = SEPARATORS[0]
        for separator in SEPARATORS:
            self._separator = separator
            if not self._survivors(tokenizer, spelled):
                return
        raise ValueError(f"these special tokens cannot be hidden: {self._survivors(tokenizer, spelled)[:5]}")

    def _survivors(self, tokenizer: Any, spelled: dict[str, int]) -> list[str]:
        numbers = set(spelled.values())
        return [
            text
            for text in spelled
            if not numbers.isdisjoint(tokenizer.encode(self.of(f"a{text}b"), add_special_tokens=False))
        ]

    def of(self, text: str) -> str:
        """Rewrite a text so that it spells no special token."""
        return text if self._pattern is None else self._pattern.sub(rf"\1{self._separator}", text)

    def tail(self, prompt: str | list[int]) -> str:
        """Return what a prompt, a text or tokens, has after its last special token, as text."""
        if isinstance(prompt, str):
            ends = (prompt.rfind(text) + len(text) for text in self._special_texts if text in prompt)
            return prompt[max(ends, default=0) :]
        specials = (number for number, token in enumerate(prompt, start=1) if token in self._special_ids)
        return str(self._tokenizer.decode(prompt[max(specials, default=0) :]))

    def check_end(self, text: str, param: str) -> None:
        """Refuse a text to continue whose end the tokenizer cannot spell: vLLM's answer would begin with that text.

        Raises:
            EngineError: With status 400; its ``param`` is the field.
        """
        tokens = self._tokenizer.encode(text[-_END_CHARACTERS:], add_special_tokens=False)
        if str(self._tokenizer.decode(tokens)).endswith(_UNREADABLE):
            raise EngineError(
                400,
                f"'{param}' ends with {text[-1]!a}, which the model's tokenizer cannot spell: leave it out, or let "
                "something else follow it.",
                param=param,
            )

    def of_json(self, value: Any) -> Any:
        """Return the JSON value with every string in it rewritten, and the text parts of a message joined to one text.

        Parts are joined because a template may write them side by side, where two halves would make a special token.
        """
        if isinstance(value, str):
            return self.of(value)
        if isinstance(value, list):
            if value and all(isinstance(part, dict) and part.get("type") == "text" for part in value):
                return self.of("\n".join(str(part.get("text") or "") for part in value))
            return [self.of_json(part) for part in value]
        if isinstance(value, dict):
            return {key: self.of_json(part) for key, part in value.items()}
        return value


def _special_tokens(tokenizer: Any) -> dict[str, int]:
    """Map the text of each special token to its id.

    Added tokens that are not special (line breaks, HTML tags) count as text.
    """
    known = {
        str(token): number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special or _TAG.fullmatch(str(token))
    }
    return known | {str(tokenizer.convert_ids_to_tokens(number)): number for number in tokenizer.all_special_ids}


def _trie_pattern(texts: Any) -> str:
    """Return one regular expression for all texts that shares their beginnings.

    A tokenizer may have 6,000, most starting alike.
    """
    trie: dict[str, Any] = {}
    for text in texts:
        node = trie
        for character in text:
            node = node.setdefault(character, {})
        node[""] = {}
    return _special_tokens_pattern(trie)


def _special_tokens_pattern(node: dict[str, Any]) -> str:
    """Return the regular expression of the special tokens from a node of their trie on, the shortest first."""
    if "" in node:
        return ""
    branches = [re.escape(character) + _special_tokens_pattern(child) for character, child in node.items()]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def reader_after_text(reader: TextReader, text: str, param: str, *, is_whole: bool = False) -> TextReader:
    """Return a reader of what the model writes after the client's text in the field ``param``.

    ``is_whole`` is as in ``TextReader.after``.

    Raises:
        EngineError: With status 400: it breaks off inside a word.
    """
    try:
        return reader.after(text, is_whole=is_whole)
    except PrefillError as error:
        raise EngineError(
            400,
            f"'{param}' cannot be continued by words of a list: {error}. End it with a whole word, or with a blank "
            "or a mark after it.",
            param=param,
        ) from None


def reader_after_prompts(reader: TextReader, body: ChatBody, plain: PlainText) -> TextReader:
    """Return the one reader of what the model writes after the prompts of a completion.

    Raises:
        EngineError: With status 400: a prompt breaks off inside a word or ends with what the tokenizer cannot spell,
            or they do not end alike.
    """
    tails = [plain.tail(prompt) for prompt in prompts_of(body)]
    for tail in tails:
        plain.check_end(tail, "prompt")
    first, *others = (reader_after_text(reader, tail, "prompt") for tail in tails)
    if any(other.place != first.place for other in others):
        raise EngineError(
            400,
            "'prompt' has texts that end differently, and one vocabulary's answers begin alike: send those that end "
            "with a word, with a blank and with a mark in requests of their own.",
            param="prompt",
        )
    return first
