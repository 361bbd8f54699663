"""What is wrong with a file, in half a line; the caller says which file."""


class DocumentError(ValueError):
    """The text of a file cannot be read; the message says why, and what to do about it."""
