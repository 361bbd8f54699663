"""Stands for the demo's service in a process of its own: answers the statuses of ``STATUSES`` in turn, then ends.

Of a service with an engine nobody can ask for these.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import yaml

STATUSES = [int(status) for status in os.environ["STATUSES"].split()]
ANSWER = {
    "model": "busy",
    "choices": [{"message": {"content": "The dog was happy."}}],
    "vocab": {"num_words": 4, "num_distinct_words": 4, "max_rank": 943},
}


class Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_json(200, {"status": "ok", "data": [{"id": "busy"}]})

    def do_POST(self) -> None:
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        status = STATUSES.pop(0)
        self.send_json(status, ANSWER if status == 200 else {"error": {"message": f"It is a {status}."}})

    def send_json(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    port = yaml.safe_load(Path(sys.argv[1]).read_text())["http_options"]["port"]
    with HTTPServer(("127.0.0.1", port), Service) as server:
        while STATUSES:
            server.handle_request()
