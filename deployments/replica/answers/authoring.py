"""What an author asks of one answer: new words, required words, limits of sentences; for the engine and the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self

from deployments.contract import AskedWord, AuthorControls
from deployments.errors import EngineError
from deployments.protocol.rules import AUTHOR_FIELDS
from deployments.replica.engine.node_lists import NodeList
from vocab.lists.cleaned import titlecase
from vocab.lists.known_lemmas import KnownLemmas
from vocab.lists.wordlists import WordList, language_of
from vocab.matching.controls import UNLIMITED, Controls, NewWords, RequiredWord
from vocab.text.reader import ReadWord, TextReader

_CUT_CHARACTER: Final = "\N{REPLACEMENT CHARACTER}"

BIAS: Final = 4.0
"""Added to the logits of required words. With 5 of them in 120 tokens, SmolLM2-135M's texts had 0.77 bits per
character, without such words 0.72 (24 November 2026); where the mask alone brought them in, 1.02."""


@dataclass(frozen=True)
class AuthoredText:
    """What one request's author asks beyond the list, to steer the engine and to check and report its texts.

    Attributes:
        controls: For the engine.
        listed: The list; a word beyond its N is new.
        word_list: The list, new words included.
        reader: Of the texts, new words included.
        must_use: As the author asked, in the order of ``controls.must_use``.
        added: The numbers of added words, which are never new.
    """

    controls: Controls
    listed: NodeList
    word_list: WordList
    reader: TextReader
    must_use: tuple[AskedWord, ...]
    added: frozenset[int]

    @classmethod
    def of(cls, author: AuthorControls, listed: NodeList, max_tokens: int) -> Self:
        """Look up the author's new and required words in a list, and build the engine's controls.

        Raises:
            EngineError: With status 400; the model's tokenizer cannot spell one that is required.
        """
        if listed.options.segmentation == "any":
            raise EngineError(
                400,
                "What an author asks is counted by the longest match: leave out 'vocab.segmentation': 'any', or "
                f"{', '.join(AUTHOR_FIELDS)}.",
                param="vocab.segmentation",
            )
        new, reader = author.new_words, listed.reader
        new_words = None
        if new is not None:
            reader = listed.reader_of(listed.options, new.n_words)
            new_words = NewWords(new.n_words, NewWords.spacing_of(new.per_100), new.max_words or UNLIMITED)
        controls = Controls(
            new_words,
            tuple(_required_word(one, index, listed) for index, one in enumerate(author.must_use)),
            author.max_sentence_words or UNLIMITED,
            author.min_sentences or 0,
            author.max_sentences or UNLIMITED,
            max_tokens,
        )
        added = frozenset(number for word in listed.changes.extra_words for number in reader.numbers(word))
        word_list = listed.listed.word_list.up_to(listed.n_words if new is None else new.n_words)
        return cls(controls, listed, word_list, reader, author.must_use, added)

    def logit_bias(self, tokenizer: Any) -> dict[str, float]:
        """Return the bias of required words' first tokens, by token id; half where a word has more tokens."""
        bias: dict[str, float] = {}
        words = self.word_list
        for asked in self.must_use:
            capital = titlecase(asked.word, words.language)
            for written in (asked.word,) if words.is_unspaced else (f" {asked.word}", capital):
                tokens = tokenizer.encode(written, add_special_tokens=False)
                first = tokenizer.decode(tokens[:1]).strip()
                # Bytes that begin a character begin many others too.
                if first and not first.endswith(_CUT_CHARACTER):
                    bias[str(tokens[0])] = BIAS if len(tokens) == 1 else BIAS / 2
        return bias

    def has_too_many_new_words(self, text: str) -> bool:
        """Return whether a whole text has more new words than were asked for, or two too close together."""
        new_words = self.controls.new_words
        if new_words is None or not text:
            return False
        places, words = dict[int, int](), self.reader.words(text)
        for place, word in enumerate(words):
            if self._is_new(word):
                places.setdefault(word.number, place)
        found = list(places.values())
        is_close = any(after - before < new_words.spacing for before, after in pairwise(found))
        return len(found) > new_words.max_words or is_close

    def block(self, texts: Sequence[str]) -> dict[str, Any]:
        """Report new words, required words and sentences of whole texts, for the ``vocab`` block."""
        read = [self.reader.words(text) if text else [] for text in texts]
        asked = self.controls
        block: dict[str, Any] = {}
        if asked.new_words is not None:
            block["new_words"] = [
                entry
                for index, words in enumerate(read)
                for entry in self._new_words(words, index if len(texts) > 1 else None)
            ]
        if asked.must_use:
            # Of several texts, the fewest.
            # A required word from beyond the list is a listed one to who reads new words.
            numbers = [
                self.reader.numbers(one.word).union(required.ranks)
                for one, required in zip(self.must_use, asked.must_use, strict=True)
            ]
            used = [[sum(word.number in of_word for word in words) for words in read] for of_word in numbers]
            block["must_use"] = [
                {"word": one.word, "count": one.times, "used": min(counts, default=0)}
                for one, counts in zip(self.must_use, used, strict=True)
            ]
        if asked.max_sentence_words != UNLIMITED or asked.min_sentences or asked.max_sentences != UNLIMITED:
            lengths = [_sentence_lengths(words) for words in read]
            block["num_sentences"] = max(map(len, lengths), default=0)
            block["longest_sentence"] = max((length for of_text in lengths for length in of_text), default=0)
        return block

    def _new_words(self, words: Sequence[ReadWord], choice: int | None) -> list[dict[str, Any]]:
        """Report each new word of a text once: word, rank, lemma, first start, count."""
        first: dict[int, ReadWord] = {}
        for word in filter(self._is_new, words):
            first.setdefault(word.number, word)
        if not first:
            return []
        # Of a lemma, the most frequent form.
        entries = {rank: entry for rank, entry in reversed(list(self.word_list.ranked())) if rank in first}
        lang = self.listed.lang
        lemmas = KnownLemmas.of_language(language_of(lang)) if lang else None
        return [
            {
                "word": entries[word.number],
                "rank": word.number,
                "lemma": None if lemmas is None else lemmas.of(entries[word.number]),
                "start": word.start,
                "count": sum(other.number == word.number for other in words),
                **({} if choice is None else {"choice": choice}),
            }
            for word in first.values()
        ]

    def _is_new(self, word: ReadWord) -> bool:
        """Return whether a word is beyond the first N and not one that the request added."""
        return word.number > self.listed.n_words and word.number not in self.added


def _required_word(asked: AskedWord, index: int, listed: NodeList) -> RequiredWord:
    """Look up the ranks that count as a required word; 400 where no token spells it."""
    numbers = set(listed.reader.numbers(asked.word))
    if asked.any_form and listed.lang is not None:
        lemmas = KnownLemmas.of_language(language_of(listed.lang))
        lemma = lemmas.of(asked.word)
        if lemma is not None:
            ranked = listed.listed.word_list.up_to(listed.n_words).ranked()
            numbers |= {rank for rank, word in ranked if lemmas.of(word) == lemma}
    if not numbers:
        raise EngineError(
            400,
            f"'vocab.must_use[{index}].word' cannot be written with this model's tokenizer: leave it out.",
            param=f"vocab.must_use[{index}].word",
        )
    return RequiredWord(tuple(sorted(numbers)), asked.times)


def _sentence_lengths(words: Sequence[ReadWord]) -> list[int]:
    lengths: list[int] = []
    for word in words:
        if word.starts_sentence or not lengths:
            lengths.append(0)
        lengths[-1] += 1
    return lengths
