"""Pages of other origins in a browser beside the service, whose key they know: what they send is refused unread."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, Page, Response

from tests.e2e.service import KEY
from tests.page.browser import ARGUMENTS, CHROMIUM

pytestmark = pytest.mark.e2e

REBOUND: Final = "evil.test"

LINE: Final = json.dumps(
    {
        "custom_id": "foreign",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1},
    }
)

SEND: Final = """async ([url, token, line]) => {
    const file = new FormData();
    file.append("purpose", "batch");
    file.append("file", new File([line], "lines.jsonl"));
    const jobs = new FormData();
    jobs.append("file", new File([JSON.stringify([JSON.parse(line).body])], "jobs.json"));
    const bodies = {
        "/v1/files": file,
        "/v1/batch/jobs": jobs,
        "/v1/documents/text": new Blob(["A text of a stranger."]),
        "/v1/documents": JSON.stringify({ text: "One." }),
        "/v1/chat/completions": JSON.stringify(JSON.parse(line).body),
    };
    for (const [path, body] of Object.entries(bodies))
        await fetch(`${url}${path}?${token}`, { method: "POST", mode: "no-cors", body }).catch(() => null);
}"""
"""Requests for which a browser asks nobody before it sends them."""

PATHS: Final = ("/v1/files", "/v1/batch/jobs", "/v1/documents/text", "/v1/documents", "/v1/chat/completions")
"""Where those requests go."""

SUBMIT: Final = """([url, token, line]) => {
    const form = document.createElement("form");
    Object.assign(form, { method: "post", enctype: "multipart/form-data", action: `${url}/v1/files?${token}` });
    const purpose = document.createElement("input");
    Object.assign(purpose, { name: "purpose", value: "batch" });
    const file = document.createElement("input");
    Object.assign(file, { type: "file", name: "file" });
    const files = new DataTransfer();
    files.items.add(new File([line], "form.jsonl"));
    file.files = files.files;
    form.append(purpose, file);
    document.body.append(form);
    form.submit();
}"""

ASK: Final = """async ([path, key]) => {
    const answer = await fetch(path, { headers: { Authorization: `Bearer ${key}` } });
    return [answer.status, await answer.text()];
}"""


class _Blank(BaseHTTPRequestHandler):
    """A page that does nothing by itself; below ``/opaque`` one whose origin is ``null``."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        if self.path == "/opaque":
            self.send_header("Content-Security-Policy", "sandbox allow-scripts allow-forms")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Foreign</title><body></body>")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def foreign() -> Iterator[str]:
    """A site on another port of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Blank) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def any_page(browser: Browser) -> Iterator[Page]:
    """A page that may go anywhere."""
    with browser.new_context() as context:
        yield context.new_page()


def uploads(url: str) -> set[str]:
    """The files that the service has."""
    listed = httpx2.get(f"{url}/v1/files", headers={"X-API-Key": KEY}, params={"limit": 10_000})
    return {file["id"] for file in listed.raise_for_status().json()["data"]}


def answers_in(page: Page, url: str) -> list[Response]:
    """The service's answers to what a page sends from now on; a page may not read them, and its debugger may."""
    found: list[Response] = []
    page.on("response", lambda response: found.append(response) if response.url.startswith(url) else None)
    return found


@pytest.mark.fault(75)
@pytest.mark.parametrize(("path", "origin"), [("/", None), ("/opaque", "null")], ids=["another port", "null"])
def test_what_a_foreign_page_sends_is_refused(
    any_page: Page, foreign: str, url: str, path: str, origin: str | None
) -> None:
    before = uploads(url)
    any_page.goto(f"{foreign}{path}")
    assert any_page.evaluate("self.origin") == (origin or foreign)
    answers = answers_in(any_page, url)
    any_page.evaluate(SEND, [url, f"token={KEY}", LINE])
    with any_page.expect_navigation():
        any_page.evaluate(SUBMIT, [url, f"token={KEY}", LINE])
    assert [(urlsplit(answer.url).path, answer.status) for answer in answers] == [
        (path, 403) for path in (*PATHS, "/v1/files")
    ]
    assert "cors_origins" in json.loads(any_page.inner_text("body"))["error"]["message"]
    assert uploads(url) == before


@pytest.mark.fault(75)
def test_a_name_that_leads_to_this_machine_is_refused(browser: Browser, url: str) -> None:
    """As by DNS rebinding: the browser takes the service for the attacker's own site."""
    rebound = url.replace("127.0.0.1", REBOUND)
    rules = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
    with browser.browser_type.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, rules]) as other:
        page = other.new_page()
        opened = page.goto(f"{rebound}/health")
        assert opened is not None
        results = [page.evaluate(ASK, [path, KEY]) for path in ("/v1/models", f"/v1/models?token={KEY}", "/v1/files")]
    assert [opened.status, *(status for status, _ in results)] == [403] * 4
    assert all("SECRET_TOKEN" in text and "data" not in json.loads(text) for _, text in results)


def test_a_page_of_the_services_own_origin_may_send_the_same(any_page: Page, url: str) -> None:
    any_page.goto(f"{url}/health")
    answers = answers_in(any_page, url)
    any_page.evaluate(SEND, [url, f"token={KEY}", LINE])
    assert {answer.request.all_headers()["origin"] for answer in answers} == {url}
    # Two bodies are not of the type that their routes take.
    assert [answer.status for answer in answers] == [200, 200, 200, 415, 415]
