"""Puts a function of ours around one of another library, for as long as the process lives. Knows neither."""

import functools
from collections.abc import Callable
from typing import Any, Final

_WRAPPERS: Final = "_wordbound_wrappers"


def wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Has ``owner.name(…)`` call ``wrapper(original, …)``. Doing it twice with a wrapper of the same name is harmless.

    Raises:
        AttributeError: There is nothing of that name.
    """
    original = getattr(owner, name)
    done: frozenset[str] = getattr(original, _WRAPPERS, frozenset())
    key = f"{wrapper.__module__}.{wrapper.__qualname__}"
    if key in done:
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(wrapped, _WRAPPERS, done | {key})
    setattr(owner, name, wrapped)
