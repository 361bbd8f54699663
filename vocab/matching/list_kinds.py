"""Lists of both kinds: of texts with spaces, tries of tokens; and of texts without, tries of characters.

The only place of these rooms that asks which of the two a list is.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from cachetools import LRUCache

from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.dictionary_trie import build_segmented, build_segmented_overlay, reference_words, segmented_digest
from vocab.automaton.frame import Frame, frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.overlay import Overlay, build_overlay
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.automaton.trie_builder import build_words, words_digest
from vocab.lists.wordlists import WordList
from vocab.matching.controlled import ControlledStates
from vocab.matching.controls import Controls
from vocab.matching.segmented.controlled import SegmentedControls
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.matching.states import ListStates
from vocab.matching.word_controls import WordControls
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.forms import decide_possessive

MAX_FRAMES: Final = 32
"""Sets of options, some hundred kilobytes each."""

PlainStates: TypeAlias = ListStates | SegmentedStates
"""The states of a list, whatever an author asks of its texts."""


class StatesMaker:
    """Make the states of lists for one tokenizer, keeping what many of them share; not thread-safe."""

    def __init__(self, tokenizer: TokenizerFacts) -> None:
        self._tokenizer = tokenizer
        self._frame_tokens = FrameTokens.of(tokenizer)
        self._frames: LRUCache[Any, Frame] = LRUCache(MAX_FRAMES)
        # Those of all N of a list share their text, for as long as one of them lives.
        self._texts = WeakValueDictionary[Any, SegmentedText]()

    def states(
        self,
        words: CompiledList,
        overlay: Overlay | None,
        options: ListOptions,
        n_words: int,
        *,
        has_places: bool = False,
        in_json: bool = False,
    ) -> PlainStates:
        """Return the states of a list with its changes, at N.

        With ``has_places`` a text may go on after another, as a list without spaces allows anyway; ``in_json`` is for
        the text of a JSON string. Both as of ``build_frame``.

        Raises:
            ListTooLargeError: As ``build_frame``.
        """
        options = decide_possessive(options, words.language, words.listed.source)
        if words.is_unspaced:
            key: tuple[Any, ...] = words.digest, overlay and overlay.digest, options, in_json
            text = self._texts.get(key)
            if text is None:
                text = self._texts[key] = SegmentedText(words, overlay, options, self._token_trie, in_json=in_json)
            return SegmentedStates(text, n_words)
        roots = tuple((words if overlay is None else overlay).roots)
        key = options, words.has_capitals, words.language, roots, has_places, in_json
        if key not in self._frames:
            self._frames[key] = frame_for(
                words, overlay, options, self._frame_tokens, has_places=has_places, in_json=in_json
            )
        return ListStates(words, self._frames[key], n_words, overlay)

    @cached_property
    def _token_trie(self) -> TokenTrie:
        """The characters of all tokens: made with the first list of an unspaced language, in 0.5 s."""
        return TokenTrie.of(self._tokenizer)


def control(states: PlainStates, controls: Controls) -> ControlledStates:
    """Return the states of one text under the controls of its author."""
    if isinstance(states, SegmentedStates):
        return SegmentedControls(states, controls)
    return WordControls(states, controls)


def list_builder(
    word_list: WordList, speller: Speller, *, has_capitals: bool
) -> tuple[str, Callable[[], CompiledList]]:
    """Return the digest of a list's artefact, and what builds it; ``has_capitals`` as of ``build_words``."""
    if word_list.is_unspaced:
        reference = reference_words(word_list.language)
        digest = segmented_digest(word_list, speller, reference)
        return digest, partial(build_segmented, word_list, speller, reference)
    digest = words_digest(word_list, speller, has_capitals=has_capitals)
    return digest, partial(build_words, word_list, speller, has_capitals=has_capitals)


def states_of(
    word_list: WordList, options: ListOptions, speller: Speller, n_words: int, changes: ListChanges = NO_CHANGES
) -> PlainStates:
    """Build a list and its states in memory; ``exclude_words`` are as a request has them.

    Raises:
        EmptyWordListError, ListTooLargeError: As ``build_words``.
    """
    of = SegmentedStates.of if word_list.is_unspaced else ListStates.of
    return of(word_list.needed_up_to(n_words), options, speller, n_words, changes)


def change_list(words: CompiledList, changes: ListChanges, speller: Speller) -> Overlay:
    """Build the overlay of changes to a list; ``exclude_words`` are entries as the list has them."""
    build = build_segmented_overlay if words.is_unspaced else build_overlay
    return build(words, changes, speller)
