"""Read the parameters after the ``?`` of a path; one that is unknown or there twice is an error, as in a body."""

from collections.abc import Collection

from starlette.requests import Request

from deployments.errors import BadRequestError, printable


def read_query(request: Request, names: Collection[str]) -> dict[str, str]:
    """Return the parameters that are there.

    Raises:
        BadRequestError: One has another name, or is given twice.
    """
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        shown = printable(name)
        if name not in names:
            raise BadRequestError(f"Unknown parameter: '{shown}'. There are {', '.join(names)}.", shown)
        if name in query:
            raise BadRequestError(f"'{shown}' is given twice. Leave one out.", shown)
        query[name] = value
    return query


def whole_number(query: dict[str, str], name: str) -> int | None:
    """Return the number that a parameter is; None where it is not there.

    Raises:
        BadRequestError: It is no whole number.
    """
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise BadRequestError(f"'{name}' must be a whole number.", name)
    return int(text)
