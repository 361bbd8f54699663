"""What the engine of a replica cannot do, by its settings and its model's tokenizer: which fields are refused."""

import logging
from typing import Any, Final

from deployments.contract import TextRequest
from deployments.errors import EngineError
from deployments.protocol.listed_json import json_field
from deployments.protocol.rules import AUTHOR_FIELDS, DETAILS, asked_of
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

_LISTED: Final = "with a vocabulary, for this service"

_NEEDS_SCORES: Final = frozenset({"num_beams", "best_of", "vocab.search", "vocab.rescue", "vocab.score", DETAILS})
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


def check_supported(request: TextRequest, settings: Settings, *, reports_cost: bool = True) -> None:
    """Refuse what a request asks for and this engine cannot do.

    ``reports_cost`` is whether it reports what a word list costs.

    Raises:
        EngineError: With status 400; it names the field and the setting.
    """
    asked = asked_of(request.body, request.decoding)
    if json_field(request.body) != "tools":
        asked.discard("tools")
    is_listed, thinks = request.vocabulary is not None, configuration.has_reasoning_parser(settings)
    thinking = "for the model of this service thinks before it answers"
    for applies, refused, why in (
        (is_listed and settings.mask_engine == "xgrammar", NEEDS_AUTOMATON, f"{_LISTED}'s mask engine is xgrammar"),
        (is_listed and not reports_cost, _NEEDS_SCORES, f"{_LISTED}'s engine does not say what a list costs"),
        (is_listed and thinks, _NOT_WITH_THOUGHTS, f"with a vocabulary, {thinking}"),
        (thinks, _NEEDS_SCORES, thinking),
        ("speculative_config" in settings.engine_kwargs, _NEEDS_SCORES, "for the engine of this service drafts tokens"),
    ):
        if applies and (named := sorted(refused & asked)):
            raise EngineError(400, f"'{named[0]}' is not available here {why}. Leave it out.", param=named[0])
