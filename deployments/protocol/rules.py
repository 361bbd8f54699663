"""What cannot stand together in a request, what needs something else, and what an engine cannot do: three tables.

What a request asks for has a name: its field, or where it is a member of an object, its path. Some names stand for
what several fields may ask for, such as ``SEARCH``.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deployments.contract import AuthorControls, ChatBody, Decoding, TextRequest, VocabularySpec, num_prompts
from deployments.errors import BadRequestError, EngineError
from deployments.protocol.listed_json import json_field
from deployments.settings.service import Settings

VOCABULARY: Final = "a vocabulary"
LISTED_JSON: Final = "JSON in a word list"
SEARCH: Final = "a search or 'vocab.score'"
SEVERAL_PROMPTS: Final = "several prompts"
DETAILS: Final = "stream_options.token_details"

AUTHOR_FIELDS: Final = tuple(f"vocab.{name}" for name in AuthorControls._fields)

HARMLESS: Final[Mapping[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("bad_words", "logprob_token_ids", "stop", "stop_token_ids", "tools"), ([],)),
    **dict.fromkeys(("continue_final_message", "echo", "ignore_eos", "logprobs", "stream"), (False,)),
    **dict.fromkeys(("return_token_ids", "return_tokens_as_token_ids"), (False,)),
    **dict.fromkeys(("add_generation_prompt", "skip_special_tokens"), (True,)),
    **dict.fromkeys(("frequency_penalty", "min_p", "min_tokens", "presence_penalty", "top_logprobs"), (0,)),
    **dict.fromkeys(("repetition_penalty", "top_p"), (1,)),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "temperature": (0, 1),
    "tool_choice": ("none",),
    "top_k": (-1, 0),
}
"""The values of fields that ask for nothing, besides null."""


@dataclass(frozen=True)
class Rule:
    """Beside one thing that is asked for, none of others may be; ``shown`` is what an error calls it."""

    beside: str
    refused: tuple[str, ...]
    shown: str

    @classmethod
    def of(cls, beside: str, refused: str, shown: str = "") -> "Rule":
        """Return the rule for some names, between blanks; a field is shown by its name."""
        return cls(beside, tuple(refused.split()), shown or (beside if " " in beside else f"'{beside}'"))


_NO_SEARCH: Final = (
    "logprob_token_ids logprobs repetition_detection response_format return_token_ids return_tokens_as_token_ids "
    "structured_outputs thinking_token_budget tool_choice tools "
)

RULES: Final = (
    # They could lead out of a word list, or to an answer without an end.
    Rule.of(
        VOCABULARY,
        "add_generation_prompt allowed_token_ids ignore_eos logprob_token_ids repetition_detection "
        "skip_special_tokens stop_token_ids structured_outputs",
    ),
    Rule.of("num_beams", "best_of vocab.search vocab.rescue"),
    Rule.of("best_of", "vocab.search vocab.rescue"),
    Rule.of("vocab.search", "vocab.rescue"),
    # Beams are not drawn, so they know no sampling.
    Rule.of(
        "num_beams",
        _NO_SEARCH + "allowed_token_ids bad_words frequency_penalty ignore_eos logit_bias min_p min_tokens "
        "presence_penalty repetition_penalty skip_special_tokens stop stop_token_ids temperature top_k top_p",
    ),
    # A text that is put together of several answers has no log probabilities of one, and no tool calls.
    Rule.of("best_of", _NO_SEARCH),
    Rule.of("vocab.search", _NO_SEARCH + "min_tokens stop stop_token_ids"),
    # A text may go on from its middle, or end at a string; JSON may not. Its names and marks repeat.
    Rule.of(LISTED_JSON, " ".join(("continue_final_message no_repeat_ngram_size stop vocab.layout", *AUTHOR_FIELDS))),
    # What a tool is called with stays within the list that its owner chose.
    Rule.of("tools", "vocab.prompt_words"),
    Rule.of(VOCABULARY, "echo", "a vocabulary, for the prompt may hold any words"),
    # They would take the logits of the whole prompt at once, 1 GB for 1,000 tokens of 262,144 each.
    Rule.of("logprobs", "echo", "'logprobs', for those of a prompt are not available here"),
    Rule.of(SEARCH, "echo"),
    # These have or move the probabilities that token details are made of.
    *(Rule.of(one, DETAILS) for one in ("logprobs", "logprob_token_ids", SEARCH, SEVERAL_PROMPTS)),
)

NEEDS: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    ("length_penalty", ("num_beams",), "'num_beams' to be at least 2"),
    ("early_stopping", ("num_beams",), "'num_beams' to be at least 2"),
    ("no_repeat_ngram_size", ("num_beams", VOCABULARY), "a vocabulary, or 'num_beams' to be at least 2"),
    (
        "vocab.select",
        ("best_of", "vocab.search"),
        "several texts to choose from: 'best_of' of at least 2, or 'vocab.search'",
    ),
    ("stream_options", ("stream",), "'stream' to be true"),
    ("stream_options.top_k", (DETAILS,), f"'{DETAILS}' to be true"),
    ("top_logprobs", ("logprobs",), "'logprobs' to be true"),
    ("tool_choice", ("tools",), "'tools'"),
)
"""What has no meaning without one of others, and would be accepted and then ignored; and what it needs, in words."""

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

_NEEDS_SCORES: Final = frozenset({"num_beams", "best_of", "vocab.search", "vocab.rescue", "vocab.score", DETAILS})
"""These use the probability of every token of the answer."""

_LISTED: Final = "with a vocabulary, for this service"


def asked_of(body: ChatBody, decoding: Decoding, vocabulary: VocabularySpec | None = None) -> set[str]:
    """Return the names of what a checked request asks for."""
    options = body.get("stream_options") or {}
    author = [] if decoding.author is None else decoding.author.fields
    asked = {name for name, value in body.items() if not _is_harmless(name, value)} | set(author)
    named = {
        "num_beams": decoding.num_beams > 1,
        "length_penalty": decoding.length_penalty != 1,
        "early_stopping": decoding.early_stopping is not False,
        "best_of": decoding.best_of > 1,
        "vocab.search": decoding.search_width > 1,
        "vocab.rescue": bool(decoding.rescue),
        "vocab.score": decoding.score,
        SEARCH: not decoding.is_plain,
        "no_repeat_ngram_size": bool(decoding.no_repeat_ngram_size),
        "vocab.layout": vocabulary is not None and vocabulary.layout == "lines",
        "vocab.prompt_words": vocabulary is not None and vocabulary.prompt is not None,
        VOCABULARY: vocabulary is not None,
        LISTED_JSON: vocabulary is not None and json_field(body) is not None,
        SEVERAL_PROMPTS: num_prompts(body) > 1,
        DETAILS: bool(options.get("token_details")),
        "stream_options.top_k": "top_k" in options,
    }
    if body.get("continue_final_message"):
        asked.discard("add_generation_prompt")
    return asked | {name for name, is_asked in named.items() if is_asked}


def check_together(asked: Collection[str]) -> None:
    """Check what a request asks for against both tables.

    Raises:
        BadRequestError: One thing cannot stand beside another, or needs another; ``param`` is its name.
    """
    for name, needed, shown in NEEDS:
        if name in asked and not any(one in asked for one in needed):
            raise BadRequestError(f"'{name}' needs {shown}.", name)
    for rule in RULES:
        for name in rule.refused:
            if name in asked and rule.beside in asked:
                raise BadRequestError(f"'{name}' cannot be combined with {rule.shown}. Leave it out.", name)


def goes_with_beams(asked: Collection[str]) -> bool:
    """Return whether all that a request asks for may stand beside ``num_beams``."""
    return not any(name in asked for rule in RULES if rule.beside in ("num_beams", SEARCH) for name in rule.refused)


def can_search(settings: Settings) -> bool:
    """Return whether the engine of these settings searches with a vocabulary and without, as far as they say."""
    drafts = "speculative_config" in settings.engine_kwargs
    return settings.mask_engine == "automaton" and not drafts and not has_reasoning_parser(settings)


def has_reasoning_parser(settings: Settings) -> bool:
    """Return whether the model may think before its answer, which is not constrained and uses up tokens."""
    structured = settings.engine_kwargs.get("structured_outputs_config") or {}
    return bool(settings.engine_kwargs.get("reasoning_parser") or structured.get("reasoning_parser"))


def check_supported(request: TextRequest, settings: Settings, *, thinks: bool, reports_cost: bool = True) -> None:
    """Refuse what a request asks for and the engine of these settings cannot do.

    ``thinks`` is whether its model may think first, ``reports_cost`` whether it reports what a word list costs.

    Raises:
        EngineError: With status 400; it names the field and the setting.
    """
    asked, is_listed = asked_of(request.body, request.decoding), request.vocabulary is not None
    if json_field(request.body) != "tools":
        asked.discard("tools")
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


def _is_harmless(name: str, value: Any) -> bool:
    # A completion's ``logprobs`` of 0 ask for something, and false asks for nothing.
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in HARMLESS.get(name, ()))
