"""``WordList``: the texts of a word list, token by token, for programs that draw the tokens themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch

from vocab.automaton.tokenizer import speller_of
from vocab.lists.entries import clean_words
from vocab.lists.wordlists import inline_word_list, load_word_list, unspaced_language
from vocab.matching.list_kinds import states_of
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.forms import case_of

State: TypeAlias = tuple[int, ...]
"""Where a text is. A value: it can be kept, compared and shared by texts that go on differently."""

_BITS: Final = 32


class WordList:
    """The texts that are made of the ``n_words`` most frequent words of a language.

    A state is a small tuple, so a program may keep many, go back, and go on from one in several ways. Masks and steps
    take microseconds, whatever the size of the list.

        words = WordList("en", 500, model)
        state = words.start
        row = await model.next_token_logprobs(ids)
        row = row.masked_fill(~words.mask(state), -math.inf)
        token = int(row.argmax())
        state = words.next(state, token)

    Args:
        lang: The list's name, or a language tag such as "pt-BR". None only with ``words``, for a list of no language.
        n_words: How many words, the most frequent first; None for all of the list.
        model: An ``AsyncLM``, or a tokenizer of transformers.
        words: A list of one's own, the most frequent first; ``lang`` then names the rules of spelling.
        extra_words: Words that are allowed besides.
        exclude_words: Words that are not allowed.
        safe: Leave profanity out of a built-in list.
        wordlist_dir: A folder with list files.
        eos_token_ids: The tokens that end a text; the tokenizer's own by default.
        vocab_size: The width of a mask, V; the model's by default.
        options: Those of ``ListOptions``, as of a request's ``vocab``: ``case``, ``layout``, ``numbers``,
            ``punctuation``, ``end``, ``segmentation`` and ``possessive``.

    Raises:
        ValueError: There is no tokenizer, or a bad number.
        VocabularyError: There is no such list, a word is none, or the tokenizer's tokens cannot be read.
    """

    ended: Final[State] = ()
    """The state after the end of a text: nothing may come."""

    def __init__(
        self,
        lang: str | None,
        n_words: int | None,
        model: Any,
        *,
        words: Sequence[str] | None = None,
        extra_words: Sequence[str] = (),
        exclude_words: Sequence[str] = (),
        safe: bool = True,
        wordlist_dir: str | Path | None = None,
        eos_token_ids: Iterable[int] | None = None,
        vocab_size: int | None = None,
        **options: Any,
    ) -> None:
        tokenizer = getattr(model, "tokenizer", model)
        if tokenizer is None:
            raise ValueError("this model has no tokenizer, which spells the words: load it with one")
        if n_words is not None and n_words < 1:
            raise ValueError(f"n_words must be at least 1, not {n_words}")
        speller = speller_of(tokenizer)
        if words is not None:
            word_list = inline_word_list(words, lang)
        elif lang is None:
            raise ValueError("name a language, or give words=")
        else:
            word_list = load_word_list(lang, None if wordlist_dir is None else Path(wordlist_dir), safe=safe)
            lang = word_list.lang
        self.lang = lang
        self.n_words = min(n_words or word_list.num_ranks, word_list.num_ranks)
        self.vocab_size = vocab_size or getattr(model, "vocab_size", None) or len(tokenizer)
        if eos_token_ids is None:
            eos_token_ids = () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)
        self.eos_token_ids = frozenset(eos_token_ids)
        list_options = ListOptions(**options)
        # Decided by the whole list, of which only what is needed is compiled.
        list_options = replace(list_options, case=case_of(list_options, has_capitals=word_list.has_capitals))
        added = clean_words(extra_words, "extra_words", unspaced_language(word_list.lang))
        changes = ListChanges(added, clean_words(exclude_words, "exclude_words"))
        changes.check(word_list.language)
        self._states = states_of(word_list, list_options, speller, self.n_words, changes)
        self.start: State = self._states.start
        self._stops = np.asarray(sorted(self.eos_token_ids), dtype=np.int32)
        self._num_words_of_mask = -(-max(self.vocab_size, len(speller.facts.token_bytes)) // _BITS)

    def mask(self, state: State, tokens_left: int | None = None) -> torch.Tensor:
        """Return bool (V,): the tokens that may come next, ends of text among them where the text is complete.

        Args:
            state: Where the text is.
            tokens_left: The next token and how many may follow it. Only tokens after which the text can still be
                completed are allowed; one that is complete after the last of them has no end token. None for no such
                bound.
        """
        bits = np.zeros(self._num_words_of_mask, dtype=np.int32)
        if state:
            self._states.fill(bits, state, NO_BUDGET if tokens_left is None else max(tokens_left - 1, 0), self._stops)
        mask = np.unpackbits(bits.view(np.uint8), count=self.vocab_size, bitorder="little")
        return torch.from_numpy(mask.view(np.bool_))

    def allowed(self, state: State, tokens_left: int | None = None) -> torch.Tensor:
        """Return int64 (n,): the ids of the tokens that may come next, ascending. Arguments as of ``mask``."""
        return self.mask(state, tokens_left).nonzero().flatten()

    def next(self, state: State, token: int) -> State:
        """Return the state after a token; ``ended`` after the end of the text.

        Raises:
            ValueError: The list does not allow the token here.
        """
        if token in self.eos_token_ids:
            target = self.ended if self.is_complete(state) else None
        else:
            target = (state and self._states.target(state, int(token), NO_BUDGET)) or None
        if target is None:
            raise ValueError(f"the word list does not allow token {token} here: draw from mask(state)")
        return target

    def is_complete(self, state: State) -> bool:
        """Return whether the text may end here."""
        return bool(state) and self._states.can_stop(state)

    def tokens_to_end(self, state: State) -> int | None:
        """Return the fewest tokens that complete the text, its end not counted; None where none do."""
        return self._states.tokens_to_end(state) if state else 0

    def log_mass(self, state: State, row: torch.Tensor, tokens_left: int | None = None) -> float:
        """Return the log of the probability that a row, float32 (V,), gives to the tokens that the mask allows."""
        return float(row.cpu().masked_fill(~self.mask(state, tokens_left), -torch.inf).logsumexp(-1))

    def __repr__(self) -> str:
        return f"WordList({self.lang!r}, {self.n_words})"
