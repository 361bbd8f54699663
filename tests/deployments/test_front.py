"""Hostile clients at HAProxy before an ingress, each in a process of its own: ``python -m deployments.front``."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

import httpx2
import psutil
import pytest

from tests.deployments.front import CHAT, KEY, assert_error, chat_body, raw_request, wait_until
from tests.deployments.ingress_process import MAX_UNREAD_S
from tests.harness import free_port
from tests.pages import ROOT

MIB: Final = 2**20
IN_KERNELS: Final = 16 * MIB
"""Of what a client has sent, so much may lie in the buffers of a connection that the front has ended."""
MAX_GROWTH: Final = 32 * MIB

HEADERS_S, IDLE_S = 15, 30
"""What ``deployments/haproxy.cfg`` says."""

START: Final = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n" % KEY.encode()
CHUNKED: Final = START + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY: Final = b'{"prompt": "The sea"}'


class World:
    """A front and an ingress; either may be killed, and started again."""

    def __init__(self, drain_s: int = 0) -> None:
        self.port = free_port()
        self._first_port = free_port()
        self.front = self._start("deployments.front", f"--port={self.port}", f"--first-port={self._first_port}",
                                 "--host=127.0.0.1", f"--drain={drain_s}")  # fmt: skip
        self.start_ingress()
        headers = {"Authorization": f"Bearer {KEY}"}
        limits = httpx2.Limits(max_keepalive_connections=0, max_connections=None)
        self.client = httpx2.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60, limits=limits, trust_env=False
        )
        self.wait_until_ready()

    def start_ingress(self) -> None:
        self.ingress = self._start("tests.deployments.ingress_process", str(self._first_port))

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], env=os.environ | {"PYTHONPATH": str(ROOT)})

    @property
    def haproxy(self) -> psutil.Process:
        [haproxy] = psutil.Process(self.front.pid).children()
        return haproxy

    def is_ready(self) -> bool:
        with suppress(httpx2.TransportError):
            return self.client.get("/ready").status_code == 200
        return False

    def wait_until_ready(self) -> None:
        wait_until(self.is_ready, 120)

    def close(self) -> None:
        self.client.close()
        for process in (self.front, self.ingress):
            process.terminate()
            process.wait(30)

    def connect(self, receive_bytes: int | None = None) -> socket.socket:
        connection = socket.socket()
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(45)
        connection.connect(("127.0.0.1", self.port))
        return connection

    def post(self, path: str, body: dict[str, Any], receive_bytes: int | None = None) -> socket.socket:
        """A connection on which a request was sent."""
        content = json.dumps(body).encode()
        fields = (b"Content-Type: application/json", b"Content-Length: %d" % len(content))
        connection = self.connect(receive_bytes)
        connection.sendall(raw_request(path, *fields, method="POST") + content)
        return connection

    def num_connections(self) -> int:
        """Those of clients that HAProxy holds."""
        return sum(
            one.status == psutil.CONN_ESTABLISHED and one.laddr.port == self.port
            for one in self.haproxy.net_connections("tcp")
        )

    @contextmanager
    def growth(self) -> Iterator[dict[str, int]]:
        """By how many bytes each process grows meanwhile, at most."""
        processes = {"haproxy": self.haproxy, "ingress": psutil.Process(self.ingress.pid)}
        before = {name: process.memory_info().rss for name, process in processes.items()}
        most, has_ended = dict(before), threading.Event()
        grown = dict.fromkeys(processes, 0)

        def look() -> None:
            while not has_ended.wait(0.05):
                for name, process in processes.items():
                    most[name] = max(most[name], process.memory_info().rss)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield grown
        finally:
            has_ended.set()
            looking.join()
            grown |= {name: most[name] - before[name] for name in processes}
            print({name: f"{size / MIB:.1f} MiB" for name, size in grown.items()})


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World()
    try:
        yield made
    finally:
        made.close()


def read_all(connection: socket.socket) -> bytes:
    received = b""
    with suppress(ConnectionError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


def read_answer(connection: socket.socket) -> bytes:
    """An error as JSON, after which the front may wait for the rest of a request."""
    received = b""
    while not received.endswith(b"}}") and (chunk := connection.recv(65536)):
        received += chunk
    return received


def send_until_refused(world: World, first: bytes, piece: bytes, num_bytes: int) -> tuple[int, bytes]:
    """How many bytes were taken of pieces after the first, and what was answered."""
    sent, answer = 0, b""
    with world.connect() as connection:
        with suppress(OSError):
            connection.sendall(first)
            while sent < num_bytes:
                connection.sendall(piece)
                sent += len(piece)
            connection.sendall(b"\r\n\r\n")
        with suppress(OSError):
            answer = read_all(connection)
    return sent, answer


@pytest.mark.fault(6)
@pytest.mark.parametrize(
    ("first", "piece", "num_bytes", "at_once"),
    [
        (START + b"X-Long: ", b"x" * MIB, 100 * MIB, 1),
        (START + b"X-Long: ", b"x" * MIB, 80 * MIB, 7),
        (START, b"x-api-key: a\r\n" * 50_000, 20 * MIB, 2),
        (CHUNKED + b"1;", b"x" * MIB, 20 * MIB, 1),
        (CHUNKED + b"%x\r\n%s\r\n0\r\nx: " % (len(BODY), BODY), b"x" * MIB, 20 * MIB, 1),
        (b"GET /", b"x" * MIB, 20 * MIB, 1),
    ],
    ids=["one header", "seven of them", "many lines", "a chunk's extension", "a trailer", "a path"],
)
def test_headers_without_end_end_the_connection(
    world: World, first: bytes, piece: bytes, num_bytes: int, at_once: int
) -> None:
    with world.growth() as grown, ThreadPoolExecutor(at_once) as pool:
        sending = [pool.submit(send_until_refused, world, first, piece, num_bytes) for _ in range(at_once)]
        start = time.monotonic()
        assert world.client.get("/health").status_code == 200
        assert time.monotonic() - start < 5
        found = [one.result() for one in sending]
    for sent, answer in found:
        assert sent <= IN_KERNELS
        assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431", b"HTTP/1.1 408")
    assert all(size < MAX_GROWTH for size in grown.values())


@pytest.mark.fault(6)
def test_the_largest_headers_are_let_through(world: World) -> None:
    answer = world.client.get("/health", headers={"X-Long": "x" * 60_000})
    assert answer.status_code == 200
    assert world.client.get("/health", headers=[("x-a", "1")] * 80).status_code == 200
    assert world.client.get("/health", headers=[("x-a", "1")] * 150).status_code in (400, 431)


@pytest.mark.fault(7)
@pytest.mark.parametrize(
    ("number", "sent", "is_half_closed"),
    [(200, START + b"X-Long: " + b"x" * 60_000, False), (1000, b"", False), (500, START + b"Content-Le", True)],
    ids=["long headers", "idle", "half closed"],
)
def test_many_connections_without_a_request_cost_little(
    world: World, number: int, sent: bytes, is_half_closed: bool
) -> None:
    with world.growth() as grown, ExitStack() as stack:
        for _ in range(number):
            connection = stack.enter_context(world.connect())
            connection.sendall(sent)
            if is_half_closed:
                connection.shutdown(socket.SHUT_WR)
        assert world.client.get("/health").status_code == 200
    assert all(size < 64 * MIB for size in grown.values())


def test_pipelined_requests_are_all_answered_in_little_memory(world: World) -> None:
    number = 2000
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    with world.growth() as grown, world.connect() as connection:
        connection.sendall((request + b"\r\n") * (number - 1) + request + b"Connection: close\r\n\r\n")
        answers = read_all(connection)
    assert answers.count(b"HTTP/1.1 200 ") == answers.count(b'{"status":"ok"}') == number
    assert all(size < MAX_GROWTH for size in grown.values())


@pytest.mark.fault(8)
def test_a_body_is_refused_by_its_length_before_it_is_sent_and_a_compressed_one_is_not_read(world: World) -> None:
    json_type = b"Content-Type: application/json"
    for fields, status in (
        ((json_type, b"Content-Length: 99000000"), b"413"),
        ((json_type, b"Content-Length: 9", b"Content-Encoding: gzip"), b"415"),
        ((b"Content-Length: 9",), b"415"),
    ):
        with world.connect() as connection:
            connection.sendall(raw_request("/tokenize", *fields, method="POST"))
            answer = read_answer(connection)
        assert answer.startswith(b"HTTP/1.1 " + status), answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    sent, answer = send_until_refused(world, CHUNKED, b"100000\r\n" + b" " * MIB + b"\r\n", 64 * MIB)
    assert sent <= IN_KERNELS
    assert answer[:12] in (b"", b"HTTP/1.1 413")


@pytest.mark.fault(7)
def test_what_is_sent_at_a_byte_a_second_or_not_at_all_is_cut_at_a_deadline_while_others_are_served(
    world: World,
) -> None:
    """Headers, bodies, connections that stand still before and after a request; all at once."""

    def seconds_until_cut(begun: bytes, drop: bytes) -> tuple[float, bytes]:
        start, answer = time.monotonic(), b""
        with world.connect() as connection, suppress(ConnectionError):
            connection.sendall(begun)
            connection.settimeout(1)
            while time.monotonic() - start < 3 * IDLE_S:
                with suppress(TimeoutError):
                    if not (chunk := connection.recv(65536)):
                        break
                    answer += chunk
                connection.sendall(drop)
        return time.monotonic() - start, answer

    body = START + b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    kept = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ThreadPoolExecutor(6) as pool:
        cases = [
            (START + b"X-Slow: ", b"x"),
            (START + b"X-Half", b""),
            (b"", b""),
            (kept, b""),
            (body, b" "),
            (body, b""),
        ]
        seen = [pool.submit(seconds_until_cut, *case) for case in cases]
        for _ in range(20):
            start = time.monotonic()
            assert world.client.get("/health").status_code == 200
            assert time.monotonic() - start < 10
            time.sleep(0.5)
        loris, half, idle, after, slow_body, stalled = (one.result() for one in seen)
    for took_s, answer in (loris, half, idle):
        assert took_s < HEADERS_S + 20
        assert answer[:12] in (b"", b"HTTP/1.1 408")
    assert after[0] < IDLE_S + 20
    for took_s, answer in (slow_body, stalled):
        assert took_s < IDLE_S + 20
        assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 408")


def test_a_client_has_the_first_event_before_the_second_is_made(world: World) -> None:
    start = time.monotonic()
    with world.client.stream("POST", CHAT, json=chat_body("slowly", stream=True, max_tokens=20)) as answer:
        next(answer.iter_raw())
        assert time.monotonic() - start < 1


@contextmanager
def reading_slowly(connections: list[socket.socket]) -> Iterator[None]:
    """A byte a second of each."""
    has_ended = threading.Event()

    def read() -> None:
        while not has_ended.wait(1):
            for connection in connections:
                with suppress(OSError):
                    connection.recv(1)

    reading = threading.Thread(target=read)
    reading.start()
    try:
        yield
    finally:
        has_ended.set()
        reading.join()
        for connection in connections:
            connection.close()


def seconds_until_cut(world: World) -> float:
    start = time.monotonic()
    wait_until(lambda: world.num_connections() == 0, 2 * IDLE_S + MAX_UNREAD_S)
    return time.monotonic() - start


@pytest.mark.fault(59)
def test_seven_answers_of_80_mb_that_are_read_a_byte_a_second_lie_in_little_memory_until_they_are_cut(
    world: World,
) -> None:
    with world.growth() as grown:
        # Of these the ingress holds three for a key, and refuses the others.
        connections = [world.post("/v1/logprobs", {"prompt": "large"}, 4096) for _ in range(7)]
        statuses = [int(one.recv(12)[9:]) for one in connections]
        with reading_slowly(connections):
            assert world.client.get("/health").status_code == 200
            took_s = seconds_until_cut(world)
    print(f"cut after {took_s:.0f} s")
    assert sorted(statuses) == [200, 200, 200, 429, 429, 429, 429]
    assert grown["haproxy"] < MAX_GROWTH
    assert grown["ingress"] < 3 * 80 * MIB + MAX_GROWTH
    assert world.client.post("/v1/logprobs", json={"prompt": "a"}).status_code == 200


@pytest.mark.fault(37)
def test_a_stream_that_is_read_a_byte_a_second_is_cut_and_costs_what_the_limit_says(world: World) -> None:
    with world.growth() as grown:
        asked = chat_body("at once", stream=True, max_tokens=20_000)
        with reading_slowly([world.post(CHAT, asked, 4096) for _ in range(4)]):
            print(f"cut after {seconds_until_cut(world):.0f} s")
    assert all(size < 80 * MIB for size in grown.values())


def test_a_client_that_takes_less_than_the_least_rate_is_cut_however_regularly(world: World) -> None:
    start = time.monotonic()
    with world.post("/v1/logprobs", {"prompt": "large"}, 4096) as connection, suppress(ConnectionResetError):
        while connection.recv(2000) and time.monotonic() - start < 4 * IDLE_S:
            time.sleep(0.1)
    # All of it would take an hour.
    assert time.monotonic() - start < 4 * IDLE_S


def test_a_client_that_goes_on_reading_gets_all_of_a_long_answer(world: World) -> None:
    rows = world.client.post("/v1/logprobs", json={"prompt": "large"})
    assert len(rows.content) == int(rows.headers["content-length"]) == 80 * MIB
    events = world.client.post(CHAT, json=chat_body("at once", stream=True, max_tokens=20_000))
    assert events.text.count("data: ") == 20_001


def open_streams(world: World, number: int) -> list[socket.socket]:
    """Connections with a stream each that has begun."""
    connections = [world.post(CHAT, chat_body("slowly", stream=True, max_tokens=1000)) for _ in range(number)]
    for connection in connections:
        begun = connection.recv(4096)
        assert begun.startswith(b"HTTP/1.1 200"), begun
    return connections


def ends_within(connections: list[socket.socket], max_s: float) -> list[bytes]:
    end, found = time.monotonic() + max_s, []
    for connection in connections:
        with connection:
            connection.settimeout(max(0.1, end - time.monotonic()))
            found.append(read_all(connection))
    return found


@pytest.mark.fault(71)
def test_where_haproxy_is_killed_its_streams_end_at_once_and_it_is_back(world: World) -> None:
    killed = world.haproxy
    connections = open_streams(world, 100)
    killed.kill()
    start = time.monotonic()
    for answer in ends_within(connections, 2):
        assert b"[DONE]" not in answer
    world.wait_until_ready()
    print(f"back after {time.monotonic() - start:.2f} s")
    assert time.monotonic() - start < 5
    assert world.haproxy.pid != killed.pid


@pytest.mark.fault(71)
def test_where_an_ingress_is_killed_its_streams_end_at_once_and_others_are_told_to_come_back(world: World) -> None:
    connections = open_streams(world, 100)
    world.ingress.kill()
    world.ingress.wait(10)
    assert not any(b"0\r\n\r\n" in answer for answer in ends_within(connections, 2))
    for _ in range(5):
        refused = world.client.get("/ready")
        assert_error(refused, 503, code="overloaded")
        assert int(refused.headers["retry-after"]) > 0
    world.start_ingress()
    world.wait_until_ready()


def test_the_address_of_another_is_an_error_in_one_line(world: World) -> None:
    arguments = [sys.executable, "-m", "deployments.front", "--host=127.0.0.1", f"--port={world.port}"]
    second = subprocess.run(arguments, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert second.returncode == 1
    assert "cannot bind socket" in second.stderr


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.fault(79)
def test_one_address_may_have_three_quarters_of_the_connections() -> None:
    """Those of HAProxy are as many as the limit of open files allows, here of few."""
    limit = 300
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    port = free_port()
    arguments = [sys.executable, "-m", "deployments.front", "--host=127.0.0.1", f"--port={port}", "--drain=0"]
    with (
        subprocess.Popen(
            arguments, cwd=ROOT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        ) as front,
        ExitStack() as stack,
    ):
        stack.callback(front.terminate)
        wait_until(partial(listens, port), 120)
        time.sleep(0.5)
        connections, cut = [], 0
        for _ in range(60):
            try:
                connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            except ConnectionResetError:
                cut += 1
        time.sleep(0.5)
        for connection in connections:
            connection.setblocking(False)
            try:
                cut += connection.recv(1) == b""
            except BlockingIOError:
                pass
            except ConnectionResetError:
                cut += 1
        assert 60 - cut == (limit - 200) // 2 - (limit - 200) // 2 // 4
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_an_end_refuses_what_comes_and_lets_streams_finish() -> None:
    world = World(drain_s=20)
    try:
        with world.client.stream("POST", CHAT, json=chat_body("slowly", stream=True, max_tokens=30)) as answer:
            lines = answer.iter_lines()
            next(lines)
            world.front.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            for path in ("/ready", "/health", "/v1/models"):
                assert_error(world.client.get(path), 503, code="overloaded")
            assert [line for line in lines if line][-1] == "data: [DONE]"
        world.front.send_signal(signal.SIGTERM)
        world.front.wait(5)
    finally:
        world.close()
