"""``wordbound serve``, ``demo`` and ``train``: programs of the service; ``mcp``: its tools; and ``key``: its keys."""

import asyncio
import getpass
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from wordbound.cli import INTERRUPTED, NOT_AS_ASKED, InputError
from wordbound.cli.asking import UrlOption, note
from wordbound.cli.doctor import Machine, findings
from wordbound.cli.options import split_names
from wordbound.cli.service import Configuration, check_installed
from wordbound.client import DEFAULT_URL, AsyncClient
from wordbound.errors import ServiceError


def run_to_its_end(arguments: Sequence[str], environment: Mapping[str, str], *, explains_errors: bool = False) -> None:
    """Run a Python program as a child process until it ends, by Ctrl-C too.

    ``explains_errors`` is whether the program has the exit statuses of a command, and prints what is wrong.

    Raises:
        ServiceError: It ended by itself, with an error.
        typer.Exit: It was interrupted, or explained its error.
    """
    stopped: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopped.append(number)
        # A terminal sends Ctrl-C to both; whoever ends this process by its number means the other too.
        if number == signal.SIGTERM:
            for child in children:
                child.send_signal(signal.SIGINT)

    # Before the program starts: one that a shell runs behind it ignores Ctrl-C, and so would its children.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        children.append(subprocess.Popen([sys.executable, *arguments], env=dict(environment)))
        status = children[0].wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopped:
        raise typer.Exit(INTERRUPTED)
    if status and explains_errors:
        raise typer.Exit(status)
    if status:
        raise ServiceError(f"the service ended with status {status}; what it wrote above says why")


DEFAULT_CONFIG: Final = Path("serve_config.yaml")

_SERVING: Final = ("-m", "deployments.serving")

_SECRET: Final = frozenset({"secret_token", "secrets_dir", "env_file"})
"""Settings that hold the service's key, or say where it is; as variables also with ``WORDBOUND_`` before them."""


def serve(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="The YAML file of the service.", show_default=True)
    ] = DEFAULT_CONFIG,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Check this machine before.")] = True,
) -> None:
    """The machine is checked first, as by wordbound doctor.

    Where something is missing, nothing is started, and the exit status is 1. What `serve run` needs in its environment
    is set.
    """
    check_installed("serve")
    _check_service(config, check_machine=check)
    run_to_its_end([*_SERVING, str(config)], os.environ)


def _check_service(config: Path, *, check_machine: bool = True, check_model: bool = True) -> None:
    """Check that the service of a YAML file has a key and what it needs of this machine.

    Raises:
        InputError: The file cannot be read, or there is no key.
        typer.Exit: Something is missing on this machine, and was printed.
    """
    read = Configuration.read(config)
    if not _has_secret(read.settings, os.environ):
        raise InputError("set SECRET_TOKEN to the key of the service, such as that of `openssl rand -hex 32`")
    if check_machine:
        model = (os.environ.get("MODEL_NAME") or read.model) if check_model else None
        failed = [found for found in findings(Machine(model, read.port)) if found.level == "fail"]
        for found in failed:
            note(str(found))
        if failed:
            raise typer.Exit(NOT_AS_ASKED)


def demo() -> None:
    """The model is fetched at the first start. Another one: MODEL_NAME=<Hugging Face id or folder> wordbound demo."""
    check_installed("demo", *([] if os.environ.get("MODEL_NAME") else ["gguf", "accelerate"]))
    run_to_its_end(["-m", "deployments.demo"], os.environ)


def _has_secret(settings: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Return whether settings, environment or a .env file give the service's key or its place."""
    named = {name.lower().removeprefix("wordbound_") for name, value in environment.items() if value}
    return bool(_SECRET & (named | set(settings))) or Path(".env").is_file()


def train(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    from wordbound.train.options import TrainError, parse

    try:
        asked = parse(arguments or [])
    except TrainError as error:
        raise InputError(str(error)) from None
    check_installed("train", "peft")
    if asked.serve is not None:
        # Before the training, which may take hours; its model is not there yet.
        _check_service(asked.serve, check_model=False)
    run_to_its_end(["-m", "wordbound.train", *(arguments or [])], os.environ, explains_errors=True)
    if asked.serve is not None:
        run_to_its_end([*_SERVING, str(asked.serve)], os.environ | _environment_of(asked.out.resolve()))


def _environment_of(out: Path) -> dict[str, str]:
    """Return the variables by which a service has the model of a training's folder: a decoder, or base and adapter."""
    adapter = out / "adapter"
    if not adapter.is_dir():
        return {"MODEL_NAME": str(out)}
    base = json.loads((out / "config.json").read_text(encoding="utf-8"))["model"]
    name = json.loads((adapter / "wordbound.json").read_text(encoding="utf-8"))["name"]
    return {"MODEL_NAME": base, "WORDBOUND_LORA": json.dumps({name: str(adapter)})}


def mcp(
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Serve over HTTP there instead.")] = None,
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help="With --http beyond this machine: the names by which it is asked."),
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """An assistant starts this command, and speaks to it on standard input and output. With --http it serves at
    http://HOST:PORT/mcp until Ctrl-C. Whoever asks it uses the key of WORDBOUND_API_KEY.
    """
    try:
        from wordbound.mcp import create_server, serve_http
    except ImportError:
        raise InputError("this needs the package mcp: pip install 'wordbound[mcp]'") from None
    try:
        server = create_server(AsyncClient(url))
    except ValueError as error:
        raise InputError(str(error)) from None
    if http is None:
        # The thread that waits for a line would go on waiting.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        asyncio.run(server.run_stdio_async())
        return
    names = split_names(allowed_hosts)
    with _listen(http, is_public=bool(names)) as listener:
        note(f"serving at http://{http.rpartition(':')[0]}:{listener.getsockname()[1]}/mcp")
        asyncio.run(serve_http(server, listener, ["127.0.0.1", "localhost", "[::1]", *names]))


def _listen(address: str, *, is_public: bool) -> socket.socket:
    """Listen at ``HOST:PORT``; InputError where it cannot be, or others would reach it and it is not ``is_public``."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname or "", parts.port
        if port is None:
            raise ValueError
        if not is_public and host != "localhost" and not ipaddress.ip_address(host).is_loopback:
            raise InputError(f"who reaches {host} would use your key: choose 127.0.0.1, or name --allowed-hosts")
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except ValueError:
        raise InputError(f"--http takes an address and a port, such as 127.0.0.1:8765, and not {address!r}") from None
    except OSError as error:
        raise InputError(f"--http {address}: {error}") from None


# As the service's settings have them.
_KEY_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TAKEN_NAME: Final = "default"


def key(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Whose key it is, such as alice.")] = None,
    verify: Annotated[
        str | None,
        typer.Option(metavar="SHA256", help="Read a key, and say whether this is its digest; nothing is made."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the key and its digest as JSON.")] = False,
) -> None:
    """What goes into the service's YAML file is the digest, and the key itself goes to NAME: it is shown once and kept
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
    if not _KEY_NAME.fullmatch(name) or name == _TAKEN_NAME:
        raise InputError(
            f"a name has 1 to 64 small letters, digits, _ and -, and is not {_TAKEN_NAME!r}, which is SECRET_TOKEN's"
        )
    # As `openssl rand -hex 32`: a digest of fewer bytes could be guessed.
    made = secrets.token_hex(32)
    if as_json:
        print(json.dumps({"name": name, "key": made, "sha256": _digest_of(made)}))
        return
    # Not where the lines below may be sent to a file.
    note(f"the key, for {name} and nobody else; it cannot be shown again:\n{made}")
    print(f"keys:\n  {name}:\n    sha256: {_digest_of(made)}")


def _digest_of(made: str) -> str:
    return hashlib.sha256(made.encode()).hexdigest()


def _verify(digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise InputError("--verify takes the 64 hexadecimal digits, in small letters, that stand after sha256")
    given = getpass.getpass("key: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not given.strip():
        raise InputError("there is no key on standard input")
    if not hmac.compare_digest(_digest_of(given.strip()), digest):
        note("this is the digest of another key")
        raise typer.Exit(NOT_AS_ASKED)
    note("this is the digest of the key")
