"""The methods that are compared, one line each: what a request asks for besides the prompt, the list and N.

To add a method, add a line. A method whose line changes is measured again; one under a new name stands beside the old.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Method(NamedTuple):
    """One way to get a text.

    Attributes:
        name: As the table has it.
        fields: Of the request.
        vocab: Fields of the ``vocab`` object besides the list and N; None for a free text.
    """

    name: str
    fields: Mapping[str, Any]
    vocab: Mapping[str, Any] | None = None

    @property
    def is_free(self) -> bool:
        return self.vocab is None

    @property
    def asked(self) -> dict[str, Any]:
        """What makes it this method, for the record."""
        return {"fields": dict(self.fields), "vocab": None if self.vocab is None else dict(self.vocab)}


SCORE: Final = {"score": True}
"""A single answer reports what it cost only if asked."""

NO_HINT: Final = {"hint": False}

REPEATS: Final = {"no_repeat_ngram_size": 0}
"""Without the rule that is the default."""

METHODS: Final[tuple[Method, ...]] = (
    Method("free-greedy", {"temperature": 0}),
    Method("free-sampled-0.7", {"temperature": 0.7}),
    Method("default", {}, SCORE),
    Method("default-no-penalty", {"presence_penalty": 0}, SCORE),
    Method("default-no-hint", {}, SCORE | NO_HINT),
    Method("default-end-word", {}, SCORE | {"end": "word"}),
    Method("default-repeats", {"temperature": 0.3, "min_p": 0.1} | REPEATS, SCORE),
    Method("default-no-repeat-6", {"no_repeat_ngram_size": 6}, SCORE),
    Method("rescue", {}, {"rescue": True}),
    Method("greedy", {"temperature": 0}, SCORE),
    Method("greedy-repeats", {"temperature": 0} | REPEATS, SCORE),
    Method("sampled-0.7", {"temperature": 0.7}, SCORE),
    Method("best-of-4", {"best_of": 4}, {}),
    Method("best-of-8", {"best_of": 8}, {}),
    Method("best-of-8-posterior", {"best_of": 8}, {"select": "posterior"}),
    Method("sentences-3", {}, {"search": {"width": 3}}),
    Method("sentences-4", {}, {"search": {"width": 4}}),
    Method("sentences-4-posterior", {}, {"search": {"width": 4}, "select": "posterior"}),
    Method("sentences-8", {}, {"search": {"width": 8}}),
    Method("beams-4", {"num_beams": 4}, {}),
    Method("beams-4-repeats", {"num_beams": 4} | REPEATS, {}),
    Method("beams-10", {"num_beams": 10}, {}),
)


def find_methods(names: str) -> list[Method]:
    """Return the methods of these names, which commas part.

    Raises:
        KeyError: There is no method of a name.
    """
    by_name = {method.name: method for method in METHODS}
    return [by_name[name.strip()] for name in names.split(",")]
