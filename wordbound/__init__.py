"""The public face: what is imported or run by people who use the library or the service."""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    # Only when it is asked for: reading it takes a tenth of the time in which the command line starts.
    if name == "__version__":
        from importlib.metadata import version

        return version("wordbound")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
