"""How the text is chosen: the top-level fields of a search, and the members of ``vocab`` that go with it.

With their checks against each other and against other fields, and the defaults of a request with a vocabulary, which
read best in ``docs/quality.md``. What the engine supports is checked in ``deployments.replica.answers.support``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from deployments.contract import MAX_RESCUE, Decoding
from deployments.errors import BadRequestError
from deployments.protocol.validation import Body
from deployments.settings.limits import MAX_NGRAM_SIZE, MAX_WIDTH
from vocab.decoding.select import Select

BACKTRACKING_SAMPLING: Final[Mapping[str, float]] = {"temperature": 0.3, "min_p": 0.1}
"""Sampling of a single constrained answer that goes back. What is left after the mask is flat, so a constrained text
reads worse at random than a free one and is drawn colder. Free text keeps the engine's own defaults."""

DEFAULT_SAMPLING: Final[Mapping[str, float]] = {**BACKTRACKING_SAMPLING, "presence_penalty": 1.0}
"""Sampling of any other. Drawn cold, one text in six comes back to the same word again and again."""

CANDIDATE_SAMPLING: Final[Mapping[str, float]] = {"temperature": 0.5}
"""Of several to choose from: warmer, so that they differ, and without cuts, so that p / q is known."""

RESCUE_SHARE: Final = 0.15
"""The share of a request that names none."""

_SAMPLING: Final = frozenset({"min_p", "temperature", "top_k", "top_p"})

_GREEDY_BELOW: Final = 1e-5
"""vLLM takes a lower temperature for 0 (``vllm.sampling_params._SAMPLING_EPS``)."""

_HARMLESS: Final[Mapping[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("bad_words", "functions", "logprob_token_ids", "stop", "stop_token_ids", "tools"), ([],)),
    **dict.fromkeys(("continue_final_message", "ignore_eos", "logprobs"), (False,)),
    **dict.fromkeys(("return_token_ids", "return_tokens_as_token_ids"), (False,)),
    **dict.fromkeys(("add_generation_prompt", "skip_special_tokens"), (True,)),
    **dict.fromkeys(("frequency_penalty", "min_p", "min_tokens", "presence_penalty"), (0,)),
    **dict.fromkeys(("repetition_penalty", "top_p"), (1,)),
    **dict.fromkeys(("function_call", "tool_choice"), ("none",)),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "temperature": (0, 1),
    "top_k": (-1, 0),
}
"""The values of fields that ask for nothing, besides null."""


def _values_without_effect(names: str) -> Mapping[str, tuple[Any, ...]]:
    """Map these fields to the values of each that ask for nothing."""
    return {name: _HARMLESS.get(name, ()) for name in names.split()}


COMBINABLE: Final = _values_without_effect(
    "add_generation_prompt allowed_token_ids function_call functions ignore_eos logprob_token_ids "
    "repetition_detection skip_special_tokens stop_token_ids structured_outputs"
)
"""Fields that could lead out of a word list or to an answer without an end, and their values that cannot."""

_NO_SEARCH: Final = (
    "logprob_token_ids logprobs repetition_detection response_format return_token_ids return_tokens_as_token_ids "
    "structured_outputs thinking_token_budget tool_choice tools "
)

REFUSED_WITH: Final = {
    "num_beams": _values_without_effect(
        _NO_SEARCH + "allowed_token_ids bad_words frequency_penalty ignore_eos logit_bias min_p min_tokens "
        "presence_penalty repetition_penalty skip_special_tokens stop stop_token_ids temperature top_k top_p"
    ),
    "best_of": _values_without_effect(_NO_SEARCH),
    "vocab.search": _values_without_effect(_NO_SEARCH + "min_tokens stop stop_token_ids"),
    "vocab.rescue": _values_without_effect("frequency_penalty logit_bias presence_penalty repetition_penalty"),
}
"""Fields that a search would have to ignore, and the values that ask for nothing. Beams are not drawn, so they know no
sampling; a text that is put together of several answers has no log probabilities of one, and no tool calls. What draws
another beginning of a word knows the model's own probabilities, which penalties and biases change in the engine."""


class Search(Body):
    """A search sentence by sentence."""

    width: Annotated[int, Field(ge=2, le=MAX_WIDTH)]
    """How many continuations are drawn up to each sentence end."""


class DecodingMembers(Body):
    """The members of ``vocab`` that are no part of the vocabulary."""

    select: Select | None = None
    """How one of several texts is chosen: the likeliest (the default), or drawn in proportion to p/q."""
    search: Search | None = None
    """Choose the text sentence by sentence."""
    rescue: bool | Annotated[float, Field(ge=0, le=MAX_RESCUE)] | None = None
    """Whether a word is written again where the list leaves less than a share of the model's probability inside it;
    a number is that share."""
    hint: bool | None = None
    """Whether the model is told, in a line of its own, to use simple words; the service's settings have the default."""
    score: bool | None = None
    """Whether the answer says what the constraint cost."""


class DecodingFields(Body):
    num_beams: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None = None
    """Beam search of this width."""
    length_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    """Finished beams are ranked by log p divided by their length to this power."""
    early_stopping: bool | Literal["never"] | None = None
    """When a beam search ends, as in transformers."""
    best_of: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None = None
    """Draw so many texts and choose among them."""
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=MAX_NGRAM_SIZE)] | None = None
    """So many tokens in a row may not come twice; 0 for any number."""


def decoding_of(
    fields: Mapping[str, Any], members: DecodingMembers | None, *, has_vocabulary: bool, hint: bool
) -> Decoding:
    """Check the search fields of a request together, and return its ``Decoding``.

    ``fields`` are all checked top-level fields but ``vocab``, as JSON, and ``members`` the ``vocab`` object;
    ``hint`` is the default of a request with a vocabulary.

    Raises:
        BadRequestError: The fields do not go together.
    """
    members = members or DecodingMembers()
    widths = {
        "num_beams": fields.get("num_beams", 1),
        "best_of": fields.get("best_of", 1),
        "vocab.search": members.search.width if members.search else 1,
    }
    searches = [name for name, width in widths.items() if width > 1]
    if members.rescue:
        searches.append("vocab.rescue")
    if len(searches) > 1:
        raise BadRequestError(
            f"'{searches[1]}' cannot be combined with '{searches[0]}': leave one of them out.", searches[1]
        )
    _check_needs(fields, members, searches, has_vocabulary=has_vocabulary)
    for name in searches:
        _check_search(name, fields)
    _check_n(fields, widths)
    return Decoding(
        num_beams=widths["num_beams"],
        length_penalty=fields.get("length_penalty", 1.0),
        early_stopping=fields.get("early_stopping", False),
        best_of=widths["best_of"],
        search_width=widths["vocab.search"],
        rescue=RESCUE_SHARE if members.rescue is True else float(members.rescue or 0),
        select=members.select or "likelihood",
        no_repeat_ngram_size=fields.get("no_repeat_ngram_size"),
        score=bool(members.score),
        hint=has_vocabulary and (hint if members.hint is None else members.hint),
    )


def sampling_defaults(fields: Mapping[str, Any], decoding: Decoding) -> Mapping[str, float]:
    """Return the default sampling of a constrained request; none where it sets some or has beams."""
    if decoding.num_beams > 1 or not _SAMPLING.isdisjoint(fields):
        return {}
    if decoding.rescue:
        return BACKTRACKING_SAMPLING
    return CANDIDATE_SAMPLING if max(decoding.best_of, decoding.search_width) > 1 else DEFAULT_SAMPLING


def _check_needs(
    fields: Mapping[str, Any], members: DecodingMembers, searches: list[str], *, has_vocabulary: bool
) -> None:
    """Refuse what has no meaning alone, so that nothing is accepted and then ignored."""
    has_beams = "num_beams" in searches
    for name, harmless in (("length_penalty", 1), ("early_stopping", False)):
        if not has_beams and fields.get(name, harmless) != harmless:
            raise BadRequestError(f"'{name}' needs 'num_beams' to be at least 2.", name)
    if fields.get("no_repeat_ngram_size") and not (has_beams or has_vocabulary):
        raise BadRequestError(
            "'no_repeat_ngram_size' needs a vocabulary, or 'num_beams' to be at least 2.", "no_repeat_ngram_size"
        )
    if members.select is not None and not {"best_of", "vocab.search"} & set(searches):
        raise BadRequestError(
            "'vocab.select' chooses among several texts: it needs 'best_of' to be at least 2, or 'vocab.search'.",
            "vocab.select",
        )


def _check_search(name: str, fields: Mapping[str, Any]) -> None:
    """Refuse the fields that this search would have to ignore, and greedy sampling."""
    for field, harmless in REFUSED_WITH[name].items():
        if field in fields and fields[field] not in harmless:
            raise BadRequestError(f"'{field}' cannot be combined with '{name}'. Leave it out.", field)
    if name in ("best_of", "vocab.search") and fields.get("temperature", 1) < _GREEDY_BELOW:
        raise BadRequestError(
            f"'temperature' must be above 0 with '{name}': at 0 all the texts to choose from would be the same.",
            "temperature",
        )


def _check_n(fields: Mapping[str, Any], widths: Mapping[str, int]) -> None:
    """Refuse more answers (``n``) than the request's search finds."""
    n = fields.get("n", 1)
    if widths["vocab.search"] > 1 and n > 1:
        raise BadRequestError("'n' must be 1 with 'vocab.search', which finds one text.", "n")
    for name in ("num_beams", "best_of"):
        is_given = widths[name] > 1 or (name == "best_of" and name in fields)
        if is_given and n > widths[name]:
            raise BadRequestError(f"'n' must not be larger than '{name}'.", "n")
