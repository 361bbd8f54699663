"""Refuses the ways of choosing a text that the settings of the engine, or what it proved at its start, rule out."""

from typing import Final

from deployments.contract import Decoding
from deployments.replica import engine
from deployments.replica.engine import EngineError
from deployments.settings import Settings

_NEEDS_AUTOMATON: Final = frozenset({"num_beams", "vocab.search", "no_repeat_ngram_size"})
"""Under ``MASK_ENGINE=xgrammar`` a text cannot be continued from its middle, and nobody looks for repeats."""

_NEEDS_SCORES: Final = frozenset({"num_beams", "best_of", "vocab.search", "vocab.score"})
"""They go by the probability of every token of the answer."""


def check_supported(decoding: Decoding, settings: Settings, *, is_constrained: bool, tells_cost: bool = True) -> None:
    """Refuse what this engine cannot do; ``tells_cost`` is whether it reports what a word list costs.

    Raises:
        EngineError: With status 400; it names the field and the setting.
    """
    asked = _fields_of(decoding)
    if settings.mask_engine == "xgrammar" and is_constrained:
        _refuse(asked, _NEEDS_AUTOMATON, "with a vocabulary, for this service runs with MASK_ENGINE=xgrammar")
    if not tells_cost and is_constrained:
        _refuse(asked, _NEEDS_SCORES, "with a vocabulary, for this service's engine does not say what a list costs")
    if engine.has_reasoning_parser(settings):
        _refuse(asked, _NEEDS_SCORES, "for the model of this service thinks before it answers")
    if settings.engine_kwargs.get("speculative_config"):
        _refuse(asked, _NEEDS_SCORES, "for the engine of this service drafts tokens (speculative_config)")


def _fields_of(decoding: Decoding) -> list[str]:
    """The request's fields that ask for more than a plain sample."""
    asked = {
        "num_beams": decoding.num_beams > 1,
        "best_of": decoding.best_of > 1,
        "vocab.search": decoding.search_width > 1,
        "no_repeat_ngram_size": decoding.no_repeat_ngram_size > 0,
        "vocab.score": decoding.score,
    }
    return [name for name, is_asked in asked.items() if is_asked]


def _refuse(asked: list[str], refused: frozenset[str], reason: str) -> None:
    for name in asked:
        if name in refused:
            raise EngineError(400, f"'{name}' is not available here {reason}. Leave it out.", param=name)
