"""The front inside Ray Serve, over handles, with stand-ins for the other deployments."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
import pytest
import ray
from ray import serve

from deployments.contract import (
    BEGUN,
    Caller,
    Decoding,
    ReplicaRequest,
    ResolvedVocabulary,
    TextRequest,
    VocabularySpec,
)
from deployments.ingress.app import Ingress
from deployments.ingress.replicas import Backend
from deployments.process_setup import DIRECT_ENVIRONMENT, FIRST_PORT_VARIABLE, LAST_PORT_VARIABLE, SERVE_ENVIRONMENT
from deployments.replica.engine.autoscaling import autoscaling_config
from deployments.settings.service import Settings
from deployments.settings.types import Autoscaling
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.front import CHAT, KEY, LIMITS, MODEL, Front, assert_error, chat_body, raw_request, wait_until
from tests.deployments.stand_in import NUM_TOKENS, WORDS, StandIn
from tests.harness import free_port
from tests.pages import ROOT
from vocab.errors import CompileError

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


class VocabularyStandIn:
    num_waiting = 0
    num_endless = 0

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary:
        if spec.lang == "broken":
            raise CompileError("the secret reason")
        if spec.lang == "endless":
            self.num_waiting += 1
            self.num_endless += 1
            try:
                await asyncio.sleep(3600)
            finally:
                self.num_waiting -= 1
        return await StandIn().resolve(spec, owner)

    async def count_waiting(self) -> int:
        return self.num_waiting

    async def num_begun(self) -> int:
        return self.num_endless


LARGE_ROWS, LARGE_V = 12, 2**20
"""48 MiB, each row an object of Ray's."""

LARGE_PIECE = 5 * 2**20
"""More than gRPC takes by itself, in bytes."""


class ReplicaStandIn:
    """The first starts at once, any later one as slowly as a model that is loaded."""

    def __init__(self, started: Path) -> None:
        if started.exists():
            time.sleep(12)
        started.touch()
        self._stand_in = StandIn()

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        body = request.body
        content = body["messages"][-1]["content"] if "messages" in body else body.get("prompt")
        if content == "please die":
            os._exit(1)
        yield BEGUN
        if content == "a large piece":
            text = "a" * LARGE_PIECE
            yield f"data: {text}\n\n" if body.get("stream") else {"text": text}
            return
        if content == "large":
            yield {"shape": [LARGE_ROWS, LARGE_V], "prompt_tokens": 1}
            for number in range(LARGE_ROWS):
                yield np.full((1, LARGE_V), number, np.float32)
            return
        async for item in self._stand_in.answer(request):
            yield item

    async def num_open(self) -> int:
        return sum(not call.is_closed for call in self._stand_in.calls)


FREE = {"num_cpus": 0}
Vocabulary: Any = serve.deployment(name="Vocabulary", ray_actor_options=FREE)(VocabularyStandIn)
Replica: Any = serve.deployment(
    name="Replica", ray_actor_options=FREE, max_ongoing_requests=2, max_queued_requests=1, health_check_period_s=1
)(ReplicaStandIn)


@pytest.fixture(scope="module", params=["behind a front", "bare"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """The service behind HAProxy, and at Serve's own port."""
    port = serves_port = free_port()
    environment, haproxy = dict(SERVE_ENVIRONMENT), None
    if request.param == "behind a front":
        serves_port, first = free_port(), free_port()
        environment |= DIRECT_ENVIRONMENT | {FIRST_PORT_VARIABLE: str(first), LAST_PORT_VARIABLE: str(first + 4)}
        arguments = ("--host=127.0.0.1", f"--port={port}", f"--first-port={first}", "--drain=0")
        haproxy = subprocess.Popen([sys.executable, "-m", "deployments.front", *arguments], cwd=ROOT)
    started = tmp_path_factory.mktemp("replica") / "started"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        options = {"runtime_env": {"env_vars": environment}}
        serve.start(http_options={"host": "127.0.0.1", "port": serves_port}, controller_options=options)
        settings = Settings(model_id=MODEL, secret_token=KEY, limits=LIMITS)
        serve.run(
            Ingress.options(ray_actor_options=FREE).bind(settings, Replica.bind(started), Vocabulary.bind()),
            name="front",
            route_prefix="/",
        )
        made = Front(port=port, backend=StandIn(), batches=DirectBatches())
        wait_until(lambda: made.get("/ready").status_code == 200)
        yield made
    finally:
        serve.shutdown()
        ray.shutdown()
        if haproxy is not None:
            haproxy.terminate()
            haproxy.wait(30)


def num_open() -> int:
    handle = serve.get_deployment_handle("Replica", app_name="front")
    return int(handle.num_open.remote().result(timeout_s=10))


def test_an_answer_of_any_size_crosses_the_handles(front: Front) -> None:
    for stream in (False, True):
        assert front.chat(text="a large piece", stream=stream).text.count("a") >= LARGE_PIECE


def test_rows_cross_the_handles_and_a_client_that_reads_slowly_holds_little_of_them(
    front: Front, request: pytest.FixtureRequest
) -> None:
    small = front.post("/v1/logprobs", {"prompt": ["a", "b", "c"]})
    assert np.frombuffer(small.content, "<f4").reshape(3, NUM_TOKENS)[:, 0].tolist() == [0, -1, -2]
    ingress = next(one for one in psutil.process_iter(["name"]) if "Ingress" in one.info["name"] and _is_ours(one))
    before = _private_bytes(ingress)
    with front.client() as client, client.stream("POST", "/v1/logprobs", json={"prompt": "large"}) as answer:
        pieces = answer.iter_bytes()
        received = bytearray(next(pieces))
        time.sleep(1)
        # A quarter of what the answer has, four bytes for each number; Serve's own proxy takes all of it.
        if "behind a front" in request.node.name:
            assert _private_bytes(ingress) - before < LARGE_ROWS * LARGE_V
        for piece in pieces:
            received += piece
    rows = np.frombuffer(received, "<f4").reshape(LARGE_ROWS, LARGE_V)
    assert (rows == np.arange(LARGE_ROWS)[:, None]).all()


def _private_bytes(process: psutil.Process) -> int:
    """What is not in Ray's object store."""
    memory = process.memory_info()
    return int(memory.rss - memory.shared)


def test_errors_keep_their_meaning_across_the_handles(front: Front) -> None:
    assert_error(front.chat(vocab_lang="broken", vocab_n_words=10), 500, code="internal_error")
    assert_error(front.chat(text="please fail", stream=True), 500, code="internal_error")
    broken = front.chat(text="please fail later", stream=True)
    assert broken.status_code == 200
    assert "[DONE]" not in broken.text
    assert '"error"' in broken.text


def test_a_client_who_leaves_does_not_wait_for_a_list_any_more(front: Front) -> None:
    handle = serve.get_deployment_handle("Vocabulary", app_name="front")

    def num_waiting() -> int:
        return int(handle.count_waiting.remote().result(timeout_s=10))

    with front.client() as client, pytest.raises(httpx2.ReadTimeout):
        client.post(CHAT, json=chat_body(vocab_lang="endless", vocab_n_words=10), timeout=2)
    assert handle.num_begun.remote().result(timeout_s=10) == 1
    wait_until(lambda: num_waiting() == 0, timeout_s=10)


@pytest.mark.fault(5)
def test_no_second_spelling_of_a_path_gets_through_the_proxy(front: Front) -> None:
    for target in ("//v1/models", "/v1/../metrics", "/%2e%2e/v1/models", "/v1/%6dodels", "/redoc"):
        assert front.send_raw(raw_request(target, key=None))[0] == 401, target
        assert front.send_raw(raw_request(target))[0] == 404, target


@pytest.mark.fault(24)
def test_the_request_id_is_the_servers_alone_through_the_proxy(front: Front) -> None:
    for name in ("X-Request-Id", "x-request-id"):
        ids = front.get("/v1/models", headers={name: "mine" + "x" * 10_240}).headers.get_list("x-request-id")
        assert len(ids) == 1
        assert ids[0].startswith("req-")


@pytest.mark.fault(56)
def test_headers_by_which_serve_routes_leave_nothing_in_the_proxy(front: Front) -> None:
    """Unguarded, Serve's router keeps an entry with all headers for each value."""
    [proxy] = [one for one in psutil.process_iter(["name"]) if "ProxyActor" in one.info["name"] and _is_ours(one)]
    names = ("serve_multiplexed_model_id", "Serve-Multiplexed-Model-Id", "x_session_id", "X-Session-Id")

    def send(number: int) -> None:
        with front.client(key=None) as client:
            for name in names:
                for part in range(10):
                    client.get("/health", headers={name: f"value-{number}-{part}", "X-Padding": "x" * 60_000})

    send(0)
    before = proxy.memory_info().rss
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(send, range(1, 31)))
    assert proxy.memory_info().rss - before < 25e6


def _is_ours(process: psutil.Process) -> bool:
    return any(parent.pid == os.getpid() for parent in process.parents())


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (CHAT, chat_body("please stall", stream=False)),
        (CHAT, chat_body("please stall", stream=True)),
        ("/v1/logprobs", {"prompt": ["a", "b", "please stall"]}),
    ],
)
def test_the_replica_stops_when_the_client_leaves(front: Front, path: str, asked: dict[str, Any]) -> None:
    body = json.dumps(asked).encode()
    stay = b"X-Request-Disconnect-Disabled: ?1"
    fields = (b"Content-Type: application/json", b"Content-Length: %d" % len(body), stay)
    with socket.create_connection(("127.0.0.1", front.port), timeout=10) as connection:
        connection.sendall(raw_request(path, *fields, method="POST") + body)
        wait_until(lambda: num_open() == 1, timeout_s=10)
    wait_until(lambda: num_open() == 0, timeout_s=5)


@pytest.mark.fault(35, 58)
def test_what_finds_no_room_is_told_to_come_back(front: Front) -> None:
    """Two requests run and one waits; all others are refused at once, and served when those have left."""
    body = json.dumps(chat_body("please stall")).encode()
    head = raw_request(CHAT, b"Content-Type: application/json", b"Content-Length: %d" % len(body), method="POST")
    with ExitStack() as stack:
        num_stalled, was_refused = 0, False
        while not was_refused:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", front.port), timeout=1))
            connection.sendall(head + body)
            with suppress(TimeoutError):
                was_refused = connection.recv(12) == b"HTTP/1.1 503"
            num_stalled += not was_refused
        assert num_stalled == 3
        with ThreadPoolExecutor(max_workers=8) as pool:
            responses = list(pool.map(lambda _: front.chat(stream=True), range(24)))
        for response in responses:
            assert_error(response, 503, code="overloaded")
            assert response.headers["retry-after"] == "1"
    wait_until(lambda: front.chat().status_code == 200, timeout_s=10)
    assert num_open() == 0


@pytest.mark.fault(3)
def test_a_key_in_the_query_is_in_no_log_and_no_metric_of_any_process(front: Front) -> None:
    tokens = (KEY, "no-key-of-ours-4d1f")
    handshake = (b"Upgrade: websocket", b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", b"Sec-WebSocket-Version: 13")
    statuses = []
    for token in tokens:
        query = f"?a=1&token={token}"
        requests = (
            raw_request(f"/v1/models{query}", key=None),
            raw_request(f"/v1/models?%74oken={token}", key=None),
            raw_request(f"http://localhost/v1/models{query}", key=None),
            raw_request(f"/v1/nothing-of-ours{query}", key=None),
            raw_request(f"/-/routes{query}", key=None),
            raw_request(f"/v1/models{query}", b"Host: a", b"Host: b", key=None),
            raw_request(f"{CHAT}{query}", b"Content-Length: 9", method="POST", key=None) + b" " * 9,
            raw_request(f"/v1/models{query} HTTP/9.9", key=None),
            raw_request(f"/v1/models{query}", *handshake, key=None).replace(b"n: close", b"n: upgrade, close"),
        )
        statuses += [front.send_raw(request)[0] for request in requests]
    assert statuses == [200, 200, 200, 404, 404, 400, 415, 400, 403, 401, 401, 401, 401, 404, 400, 401, 400, 403]
    # Both are written every few seconds.
    wait_until(lambda: b"ray_serve_" in session_metrics() and is_logged("", b"GET /"), timeout_s=60)
    assert is_logged("", b"/v1/nothing-of-ours 401")
    logs, metrics = session_logs(), session_metrics()
    for token in tokens:
        assert not [path for path, written in logs.items() if token.encode() in written]
        assert token.encode() not in metrics


def session_logs() -> dict[Path, bytes]:
    """What the processes of this Ray instance have logged; Ray has no public name for the folder."""
    node: Any = ray._private.worker._global_node
    return {path: path.read_bytes() for path in Path(node.get_logs_dir_path()).rglob("*") if path.is_file()}


def session_metrics() -> bytes:
    [node] = ray.nodes()
    return httpx2.get(f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics").content


def is_logged(beginning: str, line: bytes) -> bool:
    return any(path.name.startswith(beginning) and line in logged for path, logged in session_logs().items())


@pytest.mark.stress
@pytest.mark.usefixtures("served")
async def test_a_request_starts_the_first_replica_and_is_answered_by_it(tmp_path: Path) -> None:
    scaling = Autoscaling(min_replicas=0)
    quiet = Replica.options(name="Quiet", autoscaling_config=autoscaling_config(scaling))
    serve.run(quiet.bind(tmp_path / "started"), name="quiet", route_prefix=None)
    try:
        assert not serve.status().applications["quiet"].deployments["Quiet"].replica_states
        handle = serve.get_deployment_handle("Quiet", app_name="quiet")
        # There are no lists in this application, nor does the request ask for one.
        backend = Backend(handle, handle, Settings(secret_token=KEY, autoscaling=scaling))
        answer = backend.answer(TextRequest(chat_body(max_tokens=9), None, Decoding(), Caller("alice", "req-1")))
        [item] = [item async for item in answer]
        assert isinstance(item, dict)
        assert item["choices"][0]["message"]["content"] == "".join(WORDS)
    finally:
        serve.delete("quiet")


@pytest.mark.fault(41)
def test_a_dead_replica_is_told_at_once_and_replaced(front: Front) -> None:
    """None of these hangs until another replica has started. The last test here: it ends the only one."""
    assert_error(front.chat(text="please die"), 503, code="overloaded")
    answers = [front.chat() for _ in range(3)]
    for answer in answers:
        if answer.status_code != 200:
            assert_error(answer, 503, code="overloaded")
            assert int(answer.headers["retry-after"]) > 0
    wait_until(lambda: front.chat().status_code == 200, timeout_s=60)
