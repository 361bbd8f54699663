"""outlines-core, called as vLLM's backend calls it: an index of a regular expression over the vocabulary.

Its version 0.2.14 drops every token that goes on behind a place where a text could end, unless it ends where one could
end too ("est" of "este", where "es" is a word): github.com/dottxt-ai/outlines-core, issue 224 and what follows it. Here
a text can end only behind a character of its own, which the stop token spells, so the allowed texts stay the same.
"""

import time
from typing import Final

import numpy as np
import outlines_core

from benchmarks.engines import Compiled, Definition, Follower, Form, ModelTokenizer

_END: Final = "\x00"


class OutlinesCore:
    """An index, and a guide through it that is taken back to its start for each text."""

    reads: Form = "regex"

    def __init__(self, name: str, tokenizer: ModelTokenizer) -> None:
        del name
        ids_of: dict[bytes, list[int]] = {}
        for token, spelled in enumerate(tokenizer.facts.token_bytes):
            if spelled and _END.encode() not in spelled:
                ids_of.setdefault(spelled, []).append(token)
        ids_of[_END.encode()] = [tokenizer.stop_token]
        # Its own stop token may come where a text has ended: an id that no model has.
        self._vocabulary = outlines_core.Vocabulary(len(tokenizer.facts), ids_of)
        self.row = np.zeros(tokenizer.num_row_words, dtype=np.int32)
        self.note = "Index of a regular expression, longer words first, an end mark of its own; Guide.write_mask_into"

    def compile(self, definition: Definition) -> Compiled:
        regex = definition.regex + r"\x00"
        started = time.perf_counter()
        index = outlines_core.Index(regex, self._vocabulary)
        seconds = time.perf_counter() - started
        self._guide = outlines_core.Guide(index)
        return Compiled(seconds)

    def follow(self) -> Follower:
        guide = self._guide
        guide.reset()
        address, size, item_size = self.row.ctypes.data, self.row.size, self.row.itemsize

        def fill() -> None:
            guide.write_mask_into(address, size, item_size)

        def accept(token: int) -> bool:
            try:
                guide.advance(token, False)
            except ValueError:
                return False
            return True

        return Follower(fill, accept)


engine = OutlinesCore
