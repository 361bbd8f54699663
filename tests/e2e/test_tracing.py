"""Spans of a request, from the ingress to the engine, as a collector of OpenTelemetry gets them."""

import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from unittest import mock

import httpx2
import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.own_engine import short_lists
from tests.e2e.service import KEY, MODEL, running
from tests.harness import Demo
from tests.pages import blocks_run_by

pytestmark = [pytest.mark.e2e, pytest.mark.stress]

[DOCUMENTED] = blocks_run_by(__file__, "docs/deploying.md")
PROMPT: Final = "Where is the zorblatt of Quuxbury?"
EXPORTED_S: Final = 30
"""OpenTelemetry exports every five seconds."""


class Collector:
    """Takes spans on a port of its own."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.bodies: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.bodies.append(body)
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    outer.spans += [span for scope in resource.scope_spans for span in scope.spans]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def above(self, name: str) -> list[str]:
        """The names of the spans above one of the request's, which is not there yet where there are none."""
        by_id = {span.span_id: span for span in self.spans}
        for span in self.spans:
            names, above = list[str](), span
            while span.name == name and (above := by_id.get(above.parent_span_id)) is not None:
                names.append(above.name)
            if names:
                return names
        return []


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_request_has_one_trace_from_the_ingress_to_the_engine(
    collector: Collector, shallow_path: Path, tmp_path: Path
) -> None:
    engine = {"enforce_eager": True, "max_model_len": 512, "max_num_seqs": 8}
    args = {
        "wordlist_dir": str(short_lists(tmp_path / "lists", "en")),
        "limits": {"max_input_tokens": 128, "max_new_tokens": 128},
        "engine_kwargs": {**engine, "otlp_traces_endpoint": f"{collector.url}/v1/traces"},
    }
    serve = yaml.safe_load(DOCUMENTED.text)
    # Every request, for there is only one here.
    serve["tracing_config"]["sampling_ratio"] = 1.0
    demo = Demo(str(shallow_path), tmp_path, args, serve=serve)
    with mock.patch.dict(os.environ, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}), running(demo) as service:
        message = {"role": "user", "content": PROMPT}
        body = {"model": MODEL, "messages": [message], "max_tokens": 4, "vocab": {"lang": "en", "n_words": 100}}
        url = f"{service.url}/v1/chat/completions?token={KEY}"
        assert httpx2.post(url, json=body, timeout=60).status_code == 200
        end = time.monotonic() + EXPORTED_S
        while len(collector.above("llm_request")) < 3 and time.monotonic() < end:
            time.sleep(0.2)
    assert collector.above("llm_request") == [
        "replica_handle_request Replica answer",
        "route_to_replica Replica answer",
        "replica_handle_request Ingress __call__",
    ]
    written = b"".join(collector.bodies)
    assert b"zorblatt" not in written
    assert KEY.encode() not in written
