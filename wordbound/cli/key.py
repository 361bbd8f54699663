"""``wordbound key``: make a key of a service, or check one; a service knows keys by their digests alone."""

import getpass
import hashlib
import hmac
import json
import re
import secrets
import sys
from typing import Annotated, Final

import typer

from wordbound.cli import NOT_AS_ASKED, InputError
from wordbound.cli.terminal import note

NUM_BYTES: Final = 32
"""As ``openssl rand -hex 32``: a digest of fewer could be guessed."""

# As the service's settings have them.
_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DEFAULT: Final = "default"


def key(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Whose key it is, such as alice.")] = None,
    verify: Annotated[
        str | None,
        typer.Option(metavar="SHA256", help="Read a key, and say whether this is its digest; nothing is made."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the key and its digest as JSON.")] = False,
) -> None:
    """Make a key for a service, or check one.

    What goes into the service's YAML file is the digest, and the key itself goes to NAME: it is shown once and kept
    nowhere. With --verify a key is read from the terminal, without being shown, or from standard input; the exit
    status is 1 where it is another one.
    """
    if verify is not None:
        if name is not None:
            raise InputError("give either NAME, to make a key, or --verify, to check one")
        _verify(verify)
        return
    if name is None:
        raise InputError("say whose key it is: wordbound key alice")
    if not _NAME.fullmatch(name) or name == _DEFAULT:
        raise InputError(
            f"a name has 1 to 64 small letters, digits, _ and -, and is not {_DEFAULT!r}, which is SECRET_TOKEN's"
        )
    made = secrets.token_hex(NUM_BYTES)
    if as_json:
        print(json.dumps({"name": name, "key": made, "sha256": digest_of(made)}))
        return
    # Not where the lines below may be sent to a file.
    note(f"the key, for {name} and nobody else; it cannot be shown again:\n{made}")
    print(f"keys:\n  {name}:\n    sha256: {digest_of(made)}")


def digest_of(made: str) -> str:
    """Return the SHA-256 of a key in hexadecimal, as the setting ``keys`` has it."""
    return hashlib.sha256(made.encode()).hexdigest()


def _verify(digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise InputError("--verify takes the 64 hexadecimal digits, in small letters, that stand after sha256")
    given = getpass.getpass("key: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not given.strip():
        raise InputError("there is no key on standard input")
    if not hmac.compare_digest(digest_of(given.strip()), digest):
        note("this is the digest of another key")
        raise typer.Exit(NOT_AS_ASKED)
    note("this is the digest of the key")
