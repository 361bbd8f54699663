"""Checks of single values of a request: each takes a value and gives it back, or says what was expected.

A check knows the JSON types and their ranges. It knows neither which field it is used for nor any other field, and it
never repeats the value.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any], Any]
"""Takes a value that is not null, gives back what travels on, raises ``FieldError``."""


class FieldError(ValueError):
    """A value is not what was expected.

    Attributes:
        expected: What it must be, to follow the words "must be".
        place: Where inside the field, such as ``[3].text``.
    """

    def __init__(self, expected: str, place: str = "") -> None:
        super().__init__(f"{place} must be {expected}")
        self.expected = expected
        self.place = place

    def inside(self, place: str) -> "FieldError":
        return FieldError(self.expected, place + self.place)


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise FieldError("true or false")
    return value


def integer(low: int, high: int) -> Check:
    def check(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise FieldError(f"an integer from {low} to {high}")
        return value

    return check


def number(low: float, high: float, *, low_excluded: bool = False) -> Check:
    expected = f"a number above {low:g} and up to {high:g}" if low_excluded else f"a number from {low:g} to {high:g}"

    def check(value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high or (low_excluded and value == low):
            raise FieldError(expected)
        return float(value)

    return check


def string(min_chars: int, max_chars: int) -> Check:
    at_least = f"at least {min_chars} and " if min_chars else ""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not min_chars <= len(value) <= max_chars:
            raise FieldError(f"a string of {at_least}at most {max_chars} characters")
        return value

    return check


def one_of(*choices: str) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise FieldError("one of " + ", ".join(repr(choice) for choice in choices))
        return value

    return check


def list_of(item: Check, max_items: int, *, min_items: int = 0) -> Check:
    at_least = f"at least {min_items} and " if min_items else ""

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list) or not min_items <= len(value) <= max_items:
            raise FieldError(f"a list of {at_least}at most {max_items} items")
        return [at(f"[{index}]", item, element) for index, element in enumerate(value)]

    return check


def mapping(**members: Check) -> Check:
    """An object that has no members but these, each of which may be missing or null."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not value.keys() <= members.keys():
            raise FieldError("an object with no members but " + ", ".join(members))
        return {name: at(f".{name}", members[name], value[name]) for name in value if value[name] is not None}

    return check


def json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FieldError("an object")
    return value


def stop(max_items: int, max_chars: int) -> Check:
    """A stop string or a list of them."""
    one = string(1, max_chars)
    several = list_of(one, max_items)

    def check(value: Any) -> list[str]:
        if not isinstance(value, str | list):
            raise FieldError(f"a string or a list of at most {max_items} strings")
        return several(value) if isinstance(value, list) else [one(value)]

    return check


def logit_bias(max_items: int) -> Check:
    """Token ids, written in decimal, and what is added to their logits; whether such tokens exist is not known here."""
    bias = number(-100, 100)

    def check(value: Any) -> dict[str, float]:
        if not isinstance(value, dict) or len(value) > max_items:
            raise FieldError(f"an object of at most {max_items} token ids")
        if not all(map(_is_token_id, value)):
            raise FieldError("an object whose names are token ids, written in decimal")
        return {token_id: bias(amount) for token_id, amount in value.items()}

    return check


def at(place: str, check: Check, value: Any) -> Any:
    """Runs a check on a part of a field, so that an error names the part."""
    try:
        return check(value)
    except FieldError as error:
        raise error.inside(place) from None


def _is_token_id(text: str) -> bool:
    """Canonical, so that no two names mean one token."""
    return len(text) <= 10 and text.isascii() and text.isdecimal() and text == str(int(text))
