"""guidance's programs on models of ``wordbound.lm``: ``guidance_model(model)`` is a model of guidance 0.3.

from guidance import gen
from wordbound.lm.bridges.guidance import gen_words, guidance_model

program = guidance_model(model) + "Name: " + gen("name", stop="\n") + "\nStory:" + gen_words("en", 1000, name="story")
"""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import llguidance
from guidance import _parser, lark
from guidance.models import Model
from guidance.models._engine import Engine, EngineInterpreter, LogitsOutput
from guidance.models._transformers import TransformersTokenizer

from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES
from vocab.text.grammar import write_grammar
from wordbound.lm.base import AsyncLM
from wordbound.lm.programs import logits_after

WHOLE_SENTENCES: Final = ListOptions(end="sentence")
"""guidance ends a text that may end where the model would leave the list: so not after every word."""


# A list of some hundred words takes more than llguidance's lexer has by default, and guidance hands no limits over.
_parser.llguidance = SimpleNamespace(
    LLInterpreter=partial(
        llguidance.LLInterpreter,
        limits=llguidance.LLParserLimits(initial_lexer_fuel=100_000_000, step_lexer_fuel=2_000_000),
    )
)


class GuidanceEngine(Engine):
    """guidance's engine over the rows of a model with a tokenizer of transformers.

    ``chat_template`` is of guidance's or transformers' kind, by default the tokenizer's. ``options`` are those of
    guidance's ``Engine``: ``enable_backtrack``, ``enable_ff_tokens``, ``enable_token_probabilities``, …
    """

    def __init__(
        self, model: AsyncLM, *, chat_template: Any = None, lora_name: str | None = None, **options: Any
    ) -> None:
        if model.tokenizer is None:
            raise ValueError("this model has no tokenizer, which guidance needs: load it with one")
        super().__init__(tokenizer=TransformersTokenizer(model.tokenizer, chat_template), **options)
        self._model = model
        self._lora_name = lora_name
        self._last: list[int] = []

    def get_logits(self, token_ids: list[int], include_all_uncached_tokens: bool = False) -> LogitsOutput:
        """As the model's own, of the tokenizer's width."""
        last, self._last = self._last, list(token_ids)
        output: LogitsOutput = logits_after(self._model, self._last, last, include_all_uncached_tokens, self._lora_name)
        width = min(output["logits"].shape[1], self.tokenizer._ll_tokenizer.vocab_size)
        return {**output, "logits": output["logits"][:, :width]}


def guidance_model(model: AsyncLM, *, echo: bool = False, sampling_params: Any = None, **options: Any) -> Model:
    """Return a model of guidance that writes with ours; ``options`` are those of ``GuidanceEngine``."""
    options = {"enable_token_probabilities": echo, "enable_top_k": echo, **options}
    interpreter = EngineInterpreter(GuidanceEngine(model, **options))
    return Model(interpreter=interpreter, sampling_params=sampling_params or {}, echo=echo)


def gen_words(
    lang: str,
    n_words: int,
    *,
    name: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    wordlist_dir: str | Path | None = None,
    options: ListOptions = WHOLE_SENTENCES,
) -> Any:
    """Return a grammar of guidance: a text of the ``n_words`` most frequent words of a list.

    Args:
        lang: The list's name, such as "en" or "pt-BR".
        n_words: How many words, the most frequent first.
        name: Of the capture.
        max_tokens: The most tokens; a text that they cut is not whole.
        temperature: Of the draws.
        wordlist_dir: A folder with list files.
        options: Capitals, layout, numbers, marks, and where a text may end.

    Raises:
        VocabularyError: There is no such list.
    """
    word_list = load_word_list(lang, None if wordlist_dir is None else Path(wordlist_dir))
    grammar = write_grammar(word_list, options, n_words, NO_CHANGES, "lark")
    return lark(grammar, name=name, max_tokens=max_tokens, temperature=temperature)
