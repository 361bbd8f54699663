"""The interface of all states of texts: which tokens may come next, where they lead, and how near the end is."""

from abc import ABC, abstractmethod
from typing import Final, TypeAlias

import numpy as np

from vocab.arrays.kernels import Int32Array
from vocab.automaton.compiled_list import CompiledList

State: TypeAlias = tuple[int, ...]
"""Where a text is, in numbers that only its states understand; empty where no text begins so."""

NO_TOKENS: Final = np.empty(0, dtype=np.int32)


class TextStates(ABC):
    """The states of one text, with spaces or without, under an author's controls, or of a JSON answer.

    A mask is in xgrammar's layout: int32 words, token t at bit t % 32 of word t // 32. A budget is how many tokens may
    follow the next one, or ``NO_BUDGET``.
    """

    words: CompiledList

    @property
    @abstractmethod
    def start(self) -> State:
        """Return the state of the empty text."""

    @abstractmethod
    def begin(self, place: int | None) -> State:
        """Return the state after a prefill that left the gap automaton at ``place``; None for a text's start.

        Raises:
            ValueError: No text begins there.
        """

    @abstractmethod
    def fill(self, out: Int32Array, state: State, budget: int, stops: Int32Array = NO_TOKENS) -> None:
        """Write the mask of a state: the tokens that may come next.

        Args:
            out: int32 (words,), the mask; words past the tokenizer's vocabulary are cleared.
            state: The state.
            budget: As of the class.
            stops: int32, tokens allowed only where the text is complete.

        Raises:
            ValueError: ``out`` is too short.
        """

    @abstractmethod
    def target(self, state: State, token: int, budget: int) -> State:
        """Return the state that a token leads to, empty where it is not allowed; arguments as of ``fill``."""

    @abstractmethod
    def can_stop(self, state: State) -> bool:
        """Return whether a text is complete in this state, whatever an author still asks."""

    def may_stop(self, state: State) -> bool:
        """Return whether a text is complete, and has what its author asks of it."""
        return self.can_stop(state)

    @abstractmethod
    def is_in_word(self, state: State) -> bool:
        """Return whether the text ends in a word, which may be whole."""

    @abstractmethod
    def continues_word(self, state: State, token: int, target: State) -> bool:
        """Return whether a token that leads from a state to ``target`` goes on with the word in which the text ends."""

    @abstractmethod
    def ends_word(self, state: State) -> bool:
        """Return whether the word in which the text ends is whole, or may be."""

    def starts_sentence(self, state: State) -> bool:  # noqa: ARG002
        """Return whether a word would start a sentence in a state between words; no where these states cannot tell."""
        return False

    def keep_whole_words(self, out: Int32Array, state: State, stops: Int32Array) -> None:  # noqa: B027
        """Clear tokens in a mask that leave a word open, except ``stops``; nothing where these states cannot tell.

        Args:
            out: int32 (words,), the mask of the state.
            state: The state.
            stops: int32, the tokens that end a text.
        """

    @abstractmethod
    def tokens_to_end(self, state: State) -> int | None:
        """Return how few tokens complete a text, whatever an author still asks; None where none do."""

    def fewest_tokens(self) -> int | None:
        """Return how many tokens the shortest text has; None where there is no text."""
        return self.tokens_to_end(self.start)

    @abstractmethod
    def check(self, state: State) -> None:
        """Raise ``ValueError`` where a state cannot be one of these: compiled code does not check bounds."""

    def readings(self, state: State) -> State:
        """Return a state as the list's own states have it, without what is counted for an author."""
        return state

    def num_missing(self, state: State) -> int:  # noqa: ARG002
        """Return how many uses of required words a text in this state lacks."""
        return 0

    def begin_after(self, num_tokens: int) -> None:  # noqa: B027
        """Subtract tokens written before the text from the budget over which required words are spread."""
