"""What the engine of a replica cannot do, by its settings and its model's tokenizer: which fields are refused."""

import logging
from typing import Any, Final

from deployments.contract import ChatBody, Decoding
from deployments.errors import EngineError
from deployments.protocol.generation.listed_json import json_field
from deployments.replica.answers.authoring import AUTHOR_FIELDS
from deployments.replica.engine import configuration
from deployments.settings.service import Settings
from vocab.automaton.tokenizer import has_own_spelling

logger = logging.getLogger("ray.serve")

NEEDS_AUTOMATON: Final = frozenset(
    {
        *("num_beams", "vocab.search", "vocab.rescue", "no_repeat_ngram_size"),
        *("continue_final_message", "min_tokens", "response_format", "tools"),
        *AUTHOR_FIELDS,
    }
)
"""Where xgrammar makes the masks, a text cannot be continued from its middle, and neither repeats nor how long it is
are looked for."""

_NOT_WITH_THOUGHTS: Final = frozenset({"continue_final_message", "logprobs", "response_format", "tools"})
"""Whether thinking is over where a client's own text ends is not known, and vLLM's log probabilities are those of the
thoughts too."""

_XGRAMMAR: Final = "with a vocabulary, for this service's mask engine is xgrammar"

_DETAILS: Final = "stream_options.token_details"

_NEEDS_SCORES: Final = frozenset({"num_beams", "best_of", "vocab.search", "vocab.rescue", "vocab.score", _DETAILS})
"""These use the probability of every token of the answer."""


def with_mask_engine_for(tokenizer: Any, settings: Settings) -> Settings:
    """Return the settings, with the mask engine xgrammar where a tokenizer's spelling is not known.

    Decided where the tokenizer is read, for it may be out of reach where the application is built. The compile process
    sees the same (``load_speller``), and nothing else of the service depends on it.
    """
    if settings.mask_engine == "xgrammar" or has_own_spelling(tokenizer):
        return settings
    logger.warning(
        "the tokenizer of %s (%s) has no fast implementation, so its spelling of words is not known: the mask engine "
        "is xgrammar, which is slower, and with a vocabulary there is none of %s",
        settings.model_id, type(tokenizer).__name__, ", ".join(sorted(NEEDS_AUTOMATON)),
    )  # fmt: skip
    return settings.model_copy(update={"mask_engine": "xgrammar"})


def check_supported(
    decoding: Decoding,
    settings: Settings,
    *,
    is_constrained: bool,
    reports_cost: bool = True,
    has_details: bool = False,
) -> None:
    """Refuse decoding options of a request that this engine cannot do.

    ``reports_cost`` is whether it reports what a word list costs, ``has_details`` whether token details are asked for.

    Raises:
        EngineError: With status 400; it names the field and the setting.
    """
    asked = [*_fields_of(decoding), *([_DETAILS] if has_details else [])]
    if settings.mask_engine == "xgrammar" and is_constrained:
        _refuse(asked, NEEDS_AUTOMATON, _XGRAMMAR)
    if not reports_cost and is_constrained:
        _refuse(asked, _NEEDS_SCORES, "with a vocabulary, for this service's engine does not say what a list costs")
    if configuration.has_reasoning_parser(settings):
        _refuse(asked, _NEEDS_SCORES, "for the model of this service thinks before it answers")
    if settings.engine_kwargs.get("speculative_config"):
        _refuse(asked, _NEEDS_SCORES, "for the engine of this service drafts tokens")


def check_fields(body: ChatBody, settings: Settings) -> None:
    """Refuse fields of a constrained request that xgrammar or a thinking model cannot do."""
    asked = [name for name in ("continue_final_message", "min_tokens") if body.get(name)]
    if (field := json_field(body)) is not None:
        asked.append(field)
    if settings.mask_engine == "xgrammar":
        _refuse(asked, NEEDS_AUTOMATON, _XGRAMMAR)
    if configuration.has_reasoning_parser(settings):
        asked += ["logprobs"] if body.get("logprobs") else []
        _refuse(asked, _NOT_WITH_THOUGHTS, "with a vocabulary, for the model of this service thinks before it answers")


def _fields_of(decoding: Decoding) -> list[str]:
    """Return the names of the fields by which a request asks for more than plain sampling."""
    asked = {
        "num_beams": decoding.num_beams > 1,
        "best_of": decoding.best_of > 1,
        "vocab.search": decoding.search_width > 1,
        "vocab.rescue": decoding.rescue > 0,
        "no_repeat_ngram_size": bool(decoding.no_repeat_ngram_size),
        "vocab.score": decoding.score,
        **({} if decoding.author is None else dict.fromkeys(decoding.author.fields, True)),
    }
    return [name for name, is_asked in asked.items() if is_asked]


def _refuse(asked: list[str], refused: frozenset[str], reason: str) -> None:
    """Raise ``EngineError`` for the first field that is asked for and refused here."""
    for name in asked:
        if name in refused:
            raise EngineError(400, f"'{name}' is not available here {reason}. Leave it out.", param=name)
