"""Compile lists to xgrammar's grammars, for services whose mask engine is xgrammar.

A grammar is of one N, one set of options and one set of changes. It is compiled in a fork with limits of its own; the
libraries, which take 5 s and 400 MB, are loaded once.
"""

import hashlib
import json
from dataclasses import replace
from typing import Any, Final

from vocab.artefacts.grammar import grammar_to_bytes, grammar_version
from vocab.automaton.compiled_list import CompiledList
from vocab.compiler.child_process import in_fork
from vocab.compiler.jobs import MeasureTexts
from vocab.errors import CompileError, ListTooLargeError, VocabularyError
from vocab.text.changes import ListChanges
from vocab.text.forms import case_of
from vocab.text.grammar import write_ebnf

MAX_CPU_S: Final = 30
MAX_BYTES: Final = 3 * 2**30
"""Of one grammar, beside what the process has. 1,000 Spanish words in sentences with all their marks take 0.3 s to
compile, and 10 s and 2.4 GB with the JSON, which an engine needs as much memory to read."""

_TOO_LARGE: Final = (
    f"This list takes more than {MAX_CPU_S} s of processor time or {MAX_BYTES >> 30} GiB of memory to compile to a "
    "grammar: ask for fewer words ('n_words'), or serve it with the mask engine automaton."
)


class GrammarCompiler:
    """xgrammar's compiler; ``tokenizer_info`` is its description of a tokenizer."""

    def __init__(self, tokenizer_info: Any) -> None:
        self._info = tokenizer_info
        self._tokenizer_digest = hashlib.sha256(tokenizer_info.serialize_json().encode()).hexdigest()

    @classmethod
    def for_model(cls, model: str, *, trust_remote_code: bool) -> "GrammarCompiler":
        """Read a model's tokenizer as vLLM does, with as many tokens as the model has."""
        import xgrammar
        from transformers import AutoConfig, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code)
        config = AutoConfig.from_pretrained(model, trust_remote_code=trust_remote_code)
        num_tokens = config.get_text_config().vocab_size
        return cls(xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=num_tokens))

    def digest(self, texts: MeasureTexts) -> str:
        """Return the digest of the artefact of a grammar."""
        listed = texts.digest, texts.changes, texts.options.as_dict(), texts.n_words
        facts = json.dumps([grammar_version(), self._tokenizer_digest, listed])
        return hashlib.sha256(facts.encode()).hexdigest()

    def compile(self, words: CompiledList, changes: ListChanges, texts: MeasureTexts) -> bytes:
        """Compile the grammar of a list's texts, and return the bytes of its artefact.

        Raises:
            ListTooLargeError: It takes too much time or memory.
            VocabularyError: Those of ``write_ebnf``.
        """

        def work() -> bytes | VocabularyError:
            import xgrammar

            options = replace(texts.options, case=case_of(texts.options, has_capitals=words.has_capitals))
            compiler = xgrammar.GrammarCompiler(self._info, max_threads=1, cache_enabled=False)
            try:
                # The string itself: with ``Grammar.from_ebnf`` xgrammar 0.2.8 rejects listed letters.
                ebnf = write_ebnf(words.listed.word_list, options, texts.n_words, changes)
                text = compiler.compile_grammar(ebnf).serialize_json()
            except VocabularyError as error:
                return error
            except RuntimeError as error:
                return ListTooLargeError(_TOO_LARGE) if "bad_alloc" in str(error) else CompileError(str(error)[:200])
            return grammar_to_bytes(text, self.digest(texts))

        try:
            made = in_fork(work, MAX_CPU_S, MAX_BYTES)
        except (TimeoutError, MemoryError):
            raise ListTooLargeError(_TOO_LARGE) from None
        if isinstance(made, VocabularyError):
            raise made
        return made
