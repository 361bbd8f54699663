"""The methods that are compared, one line each: what a request asks for besides the prompt, the list and N.

To add a method, add a line. A method whose line changes is measured again; one under a new name stands beside the old.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

Kind = Literal["free", "service", "transformers"]


class Method(NamedTuple):
    """One way to get a text.

    Attributes:
        name: As the table has it.
        kind: Asked of the service without a vocabulary, or with one, or done by transformers' own ``generate``.
        fields: Of the request, or arguments of ``generate``.
        vocab: Fields of the ``vocab`` object besides the list and N.
    """

    name: str
    kind: Kind
    fields: Mapping[str, Any]
    vocab: Mapping[str, Any] = {}

    @property
    def asked(self) -> dict[str, Any]:
        """What makes it this method, for the record."""
        return {"kind": self.kind, "fields": dict(self.fields), "vocab": dict(self.vocab)}

    @property
    def searches(self) -> bool:
        """Whether the service is to generate more than it returns, and to say how much."""
        asked = {**self.fields, **self.vocab}
        return self.kind == "service" and any(map(asked.get, ("num_beams", "best_of", "search", "rescue")))


SCORE: Final = {"score": True}
"""A single answer says what it cost only if asked."""

NO_HINT: Final = {"hint": False}

REPEATS: Final = {"no_repeat_ngram_size": 0}
"""Without the rule that is the default."""

METHODS: Final[tuple[Method, ...]] = (
    Method("free-greedy", "free", {"temperature": 0}),
    Method("free-sampled-0.7", "free", {"temperature": 0.7}),
    Method("default", "service", {}, SCORE),
    Method("default-no-penalty", "service", {"presence_penalty": 0}, SCORE),
    Method("default-no-hint", "service", {}, SCORE | NO_HINT),
    Method("default-end-word", "service", {}, SCORE | {"end": "word"}),
    Method("default-repeats", "service", {"temperature": 0.3, "min_p": 0.1} | REPEATS, SCORE),
    Method("default-no-repeat-6", "service", {"no_repeat_ngram_size": 6}, SCORE),
    Method("rescue", "service", {}, {"rescue": True}),
    Method("greedy", "service", {"temperature": 0}, SCORE),
    Method("greedy-repeats", "service", {"temperature": 0} | REPEATS, SCORE),
    Method("greedy-repeats-no-hint", "service", {"temperature": 0} | REPEATS, SCORE | NO_HINT),
    Method("sampled-0.7", "service", {"temperature": 0.7}, SCORE),
    Method("sampled-0.7-repeats", "service", {"temperature": 0.7} | REPEATS, SCORE),
    Method("sampled-1.0-repeats", "service", {"temperature": 1.0} | REPEATS, SCORE),
    Method("best-of-4", "service", {"best_of": 4}),
    Method("sentences-4", "service", {}, {"search": {"width": 4}}),
    Method("sentences-3", "service", {}, {"search": {"width": 3}}),
    Method("sentences-4-no-hint", "service", {}, {"search": {"width": 4}} | NO_HINT),
    Method("sentences-4-posterior", "service", {}, {"search": {"width": 4}, "select": "posterior"}),
    Method("beams-4", "service", {"num_beams": 4}),
    Method("beams-4-repeats", "service", {"num_beams": 4} | REPEATS),
    Method("beams-4-no-repeat-6", "service", {"num_beams": 4, "no_repeat_ngram_size": 6}),
    Method("best-of-8", "service", {"best_of": 8}),
    Method("best-of-8-posterior", "service", {"best_of": 8}, {"select": "posterior"}),
    Method("sentences-8", "service", {}, {"search": {"width": 8}}),
    Method("beams-10", "service", {"num_beams": 10}),
    Method("transformers-beam-sampling-10", "transformers", {"num_beams": 10, "do_sample": True}),
)  # fmt: skip


def find_method(names: str | None) -> list[Method]:
    """The methods of these names, which commas part; all of them for None.

    Raises:
        KeyError: There is no method of a name.
    """
    if names is None:
        return list(METHODS)
    by_name = {method.name: method for method in METHODS}
    return [by_name[name.strip()] for name in names.split(",")]
