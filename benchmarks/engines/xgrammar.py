"""xgrammar, called as vLLM's backend calls it, with the EBNF of the list or with a regular expression."""

import time
from functools import partial

import xgrammar

from benchmarks.engines import Compiled, Definition, Follower, Form, ModelTokenizer


class Xgrammar:
    """A compiled grammar."""

    def __init__(self, name: str, tokenizer: ModelTokenizer) -> None:
        self.reads: Form = "regex" if name == "xgrammar-regex" else "ebnf"
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer.hugging_face, vocab_size=len(tokenizer.facts))
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._bitmask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.row = self._bitmask[0].numpy()
        compile_name = "compile_regex" if self.reads == "regex" else "compile_grammar of EBNF grouped by first letters"
        self.note = f"{compile_name}, one thread; GrammarMatcher.fill_next_token_bitmask"

    def compile(self, definition: Definition) -> Compiled:
        grammar = definition.grammar(self.reads)
        compile_ = self._compiler.compile_regex if self.reads == "regex" else self._compiler.compile_grammar
        started = time.perf_counter()
        self._compiled = compile_(grammar)
        return Compiled(time.perf_counter() - started, self._compiled.memory_size_bytes)

    def follow(self) -> Follower:
        matcher = xgrammar.GrammarMatcher(self._compiled)
        return Follower(partial(matcher.fill_next_token_bitmask, self._bitmask), matcher.accept_token)


engine = Xgrammar
