"""The public face: what is imported or run by people who use the library or the service."""

from importlib.metadata import version

__version__ = version("wordbound")
