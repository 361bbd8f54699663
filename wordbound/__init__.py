"""The public face: what is imported or run by people who use the library or the service."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wordbound.client import AsyncClient, Client
    from wordbound.errors import AwayError, RefusedError, ServiceError

_LAZY: Final = {
    "AsyncClient": "client",
    "AwayError": "errors",
    "Client": "client",
    "RefusedError": "errors",
    "ServiceError": "errors",
}
"""By the module that has them: HTTP takes a tenth of a second to import, which help and checks need not."""

__all__ = ["AsyncClient", "AwayError", "Client", "RefusedError", "ServiceError", "__version__"]

__version__: str


def __getattr__(name: str) -> Any:
    # Only when it is asked for: reading it takes a tenth of the time in which the command line starts.
    if name == "__version__":
        from importlib.metadata import version

        return version("wordbound")
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
