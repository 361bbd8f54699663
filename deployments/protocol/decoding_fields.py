"""How the text is chosen, in a request: the top-level fields of a search, and the members of ``vocab`` that go with it.

It checks each by itself, what they ask of one another and of the other fields, and makes the ``Decoding``. Whether the
engine that is served can do it (``decoding_support``) and how it is done are not known here.
"""

from collections.abc import Mapping
from typing import Any, Final, get_args

from deployments.contract import Decoding
from deployments.errors import BadRequestError, printable
from deployments.limits import Limits
from deployments.protocol.decoding_defaults import MAX_NGRAM_SIZE
from deployments.protocol.fields import Check, FieldError, at, boolean, integer, json_object, number, one_of
from vocab.decoding.select import Select

MEMBERS: Final = ("select", "search", "hint", "score")
"""The members of ``vocab`` that are no part of the vocabulary."""

_GREEDY_BELOW: Final = 1e-5
"""Up to here vLLM takes a temperature for 0 (``vllm.sampling_params._SAMPLING_EPS``)."""

_NEITHER: Final[Mapping[str, tuple[Any, ...]]] = {
    "logprob_token_ids": ([],),
    "logprobs": (False,),
    "repetition_detection": (),
    "response_format": ({"type": "text"},),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "structured_outputs": (),
    "thinking_token_budget": (),
    "tool_choice": ("none",),
    "tools": ([],),
}

REFUSED_WITH: Final[Mapping[str, Mapping[str, tuple[Any, ...]]]] = {
    "num_beams": {
        **_NEITHER,
        "allowed_token_ids": (),
        "bad_words": ([],),
        "frequency_penalty": (0,),
        "ignore_eos": (False,),
        "logit_bias": ({},),
        "min_p": (0,),
        "min_tokens": (0,),
        "presence_penalty": (0,),
        "repetition_penalty": (1,),
        "skip_special_tokens": (True,),
        "stop": ([],),
        "stop_token_ids": ([],),
        "temperature": (0, 1),
        "top_k": (-1, 0),
        "top_p": (1,),
    },
    "best_of": _NEITHER,
    "vocab.search": {**_NEITHER, "min_tokens": (0,), "stop": ([],), "stop_token_ids": ([],)},
}
"""Fields that a search would have to ignore, and the values that ask for nothing. Beams are not drawn, so they know no
sampling; a text that is put together of several answers has no log probabilities of one, and no tool calls."""


def decoding_fields(limits: Limits) -> dict[str, Check]:
    """The checks of the top-level fields, each by itself."""
    return {
        "best_of": integer(1, limits.max_width),
        "early_stopping": _early_stopping,
        "length_penalty": number(-10, 10),
        "no_repeat_ngram_size": integer(0, MAX_NGRAM_SIZE),
        "num_beams": integer(1, limits.max_width),
    }


def decoding_members(limits: Limits) -> dict[str, Check]:
    """The checks of the members of ``vocab``, each by itself."""
    return {
        "select": one_of(*get_args(Select)),
        "search": lambda value: _search(value, limits),
        "hint": boolean,
        "score": boolean,
    }


def decoding_of(checked: Mapping[str, Any], *, has_vocabulary: bool, hint: bool, no_repeat_ngram_size: int) -> Decoding:
    """What checked fields ask for.

    Args:
        checked: All fields of the request.
        has_vocabulary: Whether they name a vocabulary.
        hint: Whether the model is told of it where the request does not say.
        no_repeat_ngram_size: That of a request with a vocabulary that does not say.

    Raises:
        BadRequestError: They do not go together.
    """
    vocab = checked.get("vocab", {})
    widths = {
        "num_beams": checked.get("num_beams", 1),
        "best_of": checked.get("best_of", 1),
        "vocab.search": vocab.get("search", {}).get("width", 1),
    }
    searches = [name for name, width in widths.items() if width > 1]
    if len(searches) > 1:
        raise BadRequestError(
            f"'{searches[1]}' cannot be combined with '{searches[0]}': leave one of them out.", searches[1]
        )
    _check_needs(checked, searches, has_vocabulary=has_vocabulary)
    for name in searches:
        _check_search(name, checked)
    _check_n(checked, widths)
    return Decoding(
        num_beams=widths["num_beams"],
        length_penalty=checked.get("length_penalty", 1.0),
        early_stopping=checked.get("early_stopping", False),
        best_of=widths["best_of"],
        search_width=widths["vocab.search"],
        select=vocab.get("select", "likelihood"),
        no_repeat_ngram_size=checked.get("no_repeat_ngram_size", no_repeat_ngram_size if has_vocabulary else 0),
        score=vocab.get("score", False),
        hint=has_vocabulary and vocab.get("hint", hint),
    )


def _early_stopping(value: Any) -> bool | str:
    if not isinstance(value, bool) and value != "never":
        raise FieldError("true, false or 'never'")
    checked: bool | str = value
    return checked


def _search(value: Any, limits: Limits) -> dict[str, int]:
    given = json_object(value)
    for name in given:
        if name != "width":
            shown = printable(name)
            raise BadRequestError(
                f"Unknown member of 'vocab.search': '{shown}'. Its one member is width.", f"vocab.search.{shown}"
            )
    return {"width": at(".width", integer(2, limits.max_width), given.get("width"))}


def _check_needs(checked: Mapping[str, Any], searches: list[str], *, has_vocabulary: bool) -> None:
    """Refuses what has no meaning alone: nothing is accepted and then ignored."""
    has_beams = "num_beams" in searches
    for name, harmless in (("length_penalty", 1), ("early_stopping", False)):
        if not has_beams and checked.get(name, harmless) != harmless:
            raise BadRequestError(f"'{name}' needs 'num_beams' to be at least 2.", name)
    if checked.get("no_repeat_ngram_size") and not (has_beams or has_vocabulary):
        raise BadRequestError(
            "'no_repeat_ngram_size' needs a vocabulary, or 'num_beams' to be at least 2.", "no_repeat_ngram_size"
        )
    if "select" in checked.get("vocab", {}) and not {"best_of", "vocab.search"} & set(searches):
        raise BadRequestError(
            "'vocab.select' chooses among several texts: it needs 'best_of' to be at least 2, or 'vocab.search'.",
            "vocab.select",
        )


def _check_search(name: str, checked: Mapping[str, Any]) -> None:
    """Refuses the fields that this search would have to ignore."""
    for field, harmless in REFUSED_WITH[name].items():
        if field in checked and checked[field] not in harmless:
            raise BadRequestError(f"'{field}' cannot be combined with '{name}'. Leave it out.", field)
    if name != "num_beams" and checked.get("temperature", 1) < _GREEDY_BELOW:
        raise BadRequestError(
            f"'temperature' must be above 0 with '{name}': at 0 all the texts to choose from would be the same.",
            "temperature",
        )


def _check_n(checked: Mapping[str, Any], widths: Mapping[str, int]) -> None:
    n = checked.get("n", 1)
    if widths["vocab.search"] > 1 and n > 1:
        raise BadRequestError("'n' must be 1 with 'vocab.search', which finds one text.", "n")
    for name in ("num_beams", "best_of"):
        is_given = widths[name] > 1 or (name == "best_of" and name in checked)
        if is_given and n > widths[name]:
            raise BadRequestError(f"'n' must not be larger than '{name}'.", "n")
