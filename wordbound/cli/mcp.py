"""``wordbound mcp``: the tools of a running service for assistants."""

import asyncio
import ipaddress
import signal
import socket
from typing import Annotated
from urllib.parse import urlsplit

import typer

from wordbound.cli import InputError
from wordbound.cli.asking import UrlOption
from wordbound.cli.options import split_names
from wordbound.cli.terminal import note
from wordbound.client import DEFAULT_URL, AsyncClient


def mcp(
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Serve over HTTP there instead.")] = None,
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help="With --http beyond this machine: the names by which it is asked."),
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Give assistants the tools of a running service (Model Context Protocol).

    An assistant starts this command, and speaks to it on standard input and output. With --http it serves at
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
