"""What a client of the wordlist server sends, as it was documented, to a service that its example ``.env`` starts, and
what it sees of a service without compatibility. Clients of llm-serving are in ``tests/deployments/ingress``."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from tests.checker import assert_only_listed_words
from tests.deployments.settings.test_migration import WORDLIST_SERVER
from tests.e2e.service import ASKED, KEY, Service, running
from tests.harness import Demo

pytestmark = pytest.mark.e2e

SPANISH = ("el", "la", "casa", "perro", "grande", "es")
JOBS = "/v1/batch/jobs"
TIMEOUT_S = 300
LISTED: dict[str, Any] = {"vocab_lang": "en", "vocab_n_words": 1000}
MESSAGES = [{"role": "user", "content": "Tell me about the house."}]
LONG = [{"role": "user", "content": "Tell me about a very large house. " * 400}]


@pytest.fixture(scope="module")
def old(shallow_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Client"]:
    """A client of a service of the example, whose model is another here; the demo's settings let ``changeme`` in."""
    folder = tmp_path_factory.mktemp("old")
    (folder / "wordlists").mkdir()
    (folder / "wordlists" / "es.txt").write_text("\n".join(SPANISH), encoding="utf-8")
    (folder / "wordlists" / "nothing.txt").write_text("# nothing\n", encoding="utf-8")
    (folder / ".env").write_text(WORDLIST_SERVER)
    args = {"env_file": str(folder / ".env"), "serve_metrics": "key"}
    service = Demo(str(shallow_path), folder / "run", args)
    with running(service) as started, Client(started) as client:
        yield client


@pytest.fixture(scope="module")
def new(service: Service) -> Iterator["Client"]:
    """A client of a service without compatibility."""
    with Client(service) as client:
        yield client


class Client:
    """One of the wordlist server's clients."""

    def __init__(self, service: Service) -> None:
        self.url, self.log_path = service.url, service.log_path
        self.http = httpx2.Client(base_url=service.url, timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {KEY}"})
        self.openai = service.client
        self.model: str = self.http.get("/v1/models").json()["data"][0]["id"]
        ASKED.update(one[0]["content"] for one in (MESSAGES, LONG))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def chat(self, messages: Any = MESSAGES, **fields: Any) -> httpx2.Response:
        return self.http.post("/v1/chat/completions", json={"model": self.model, "messages": messages, **fields})

    def create(self, items: Any, **parameters: Any) -> httpx2.Response:
        return self.http.post(JOBS, params=parameters, files={"file": ("in.json", json.dumps(items).encode())})

    def ended(self, job_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            job: dict[str, Any] = self.http.get(f"{JOBS}/{job_id}").json()
            if job["status"] in ("completed", "failed"):
                return job
            assert job["status"] in ("pending", "processing") and time.monotonic() < deadline, job
            time.sleep(0.5)

    def results(self, job_id: str) -> httpx2.Response:
        return self.http.get(f"{JOBS}/{job_id}/results")


def small_item() -> dict[str, Any]:
    return {"messages": MESSAGES}


def test_the_start_says_which_clients_are_served_and_why(old: Client) -> None:
    log = old.log_path.read_text()
    assert log.count("compatibility: wordlist-server, for ") == 1
    assert 'compatibility = "wordlist-server" (chosen for ' in log


def test_a_key_is_needed_and_its_refusal_is_a_403(old: Client, new: Client) -> None:
    for one, status in ((old, 403), (new, 401)):
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            assert httpx2.get(f"{one.url}/v1/models", headers=headers, timeout=60).status_code == status
        assert httpx2.get(f"{one.url}/v1/models?token={KEY}", timeout=60).status_code == 200
        [card] = one.http.get("/v1/models").json()["data"]
        assert (card["object"], card["owned_by"]) == ("model", "owner" if one is old else "wordbound")


def test_the_metrics_of_the_node_are_on_the_services_port_by_a_setting(old: Client, new: Client) -> None:
    read = old.http.get("/metrics")
    assert (read.status_code, "# TYPE ray_" in read.text) == (200, True)
    assert httpx2.get(f"{old.url}/metrics", timeout=60).status_code == 403
    assert new.http.get("/metrics").status_code == 404


def test_a_chat_has_its_members_and_next_allowed_number_of_tokens(old: Client) -> None:
    create: Any = old.openai.chat.completions.create
    made = create(model=old.model, messages=MESSAGES, max_tokens=10, extra_body={**LISTED, "length_penalty": 1.0})
    answer = made.model_dump()
    assert answer.keys() >= {"id", "object", "created", "model", "choices", "usage"}
    [choice] = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert_only_listed_words(choice["message"]["content"], "en", 1000)
    assert 1 <= answer["usage"]["completion_tokens"] <= 64
    free = old.chat(max_tokens=600, num_beams=1)
    assert 1 <= free.json()["usage"]["completion_tokens"] <= 512
    # No hint: the prompt is as long as that of a free chat.
    assert answer["usage"]["prompt_tokens"] == free.json()["usage"]["prompt_tokens"]
    whole = old.chat(max_tokens=64, vocab_lang="es", vocab_n_words=3000).json()
    assert {name: whole["vocab"][name] for name in ("lang", "source", "n_words")} == {
        "lang": "es", "source": "file", "n_words": 6,
    }  # fmt: skip
    words = re.findall(r"[^\W\d_]+", whole["choices"][0]["message"]["content"].lower())
    assert words and set(words) <= set(SPANISH)


def test_a_length_penalty_needs_no_beams(old: Client, new: Client) -> None:
    fields: dict[str, Any] = {**LISTED, "max_tokens": 64, "num_beams": 1, "length_penalty": 2.0}
    assert old.chat(**fields).status_code == 200
    refused = new.chat(**fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "length_penalty")


def test_a_message_that_is_too_long_is_truncated(old: Client, new: Client) -> None:
    answer = old.chat(LONG, **LISTED, max_tokens=64)
    assert answer.status_code == 200, answer.text
    assert answer.json()["input_overflow"]["cut_characters"] > 0
    assert answer.json()["usage"]["prompt_tokens"] <= 512
    assert_only_listed_words(answer.json()["choices"][0]["message"]["content"], "en", 1000)
    refused = new.chat(LONG, **LISTED, max_tokens=64)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_a_job_is_pending_and_its_results_are_numbered(old: Client) -> None:
    made = old.create([small_item(), {**small_item(), "num_beams": 99, "max_tokens": 1}], **LISTED, max_tokens=20)
    assert made.status_code == 200, made.text
    job = made.json()
    assert (job["status"], bool(job["message"])) == ("pending", True)
    assert old.results(job["job_id"]).status_code == 404
    assert old.results("job_0123456789abcdef").status_code == 404
    ended = old.ended(job["job_id"])
    assert (ended["status"], ended["error"], bool(ended["submitted_at"])) == ("completed", None, True)
    results = old.results(job["job_id"]).json()
    assert [one["id"] for one in results] == [f"chatcmpl-batch-{job['job_id']}-{index}" for index in range(2)]
    for one in results:
        assert one["object"] == "chat.completion"
        assert_only_listed_words(one["choices"][0]["message"]["content"], "en", 1000)
        assert one["usage"]["completion_tokens"] <= 64


FAULTS: list[tuple[Any, dict[str, Any]]] = [
    ({"messages": MESSAGES}, {}),
    ([small_item()], {"vocab_lang": "xx", "vocab_n_words": 1000}),
    ([small_item()], {"vocab_lang": "nothing", "vocab_n_words": 1000}),
    ([small_item(), {**small_item(), "model": "another"}], {}),
]
"""A file that is no list, a list of words that is not there, one that is empty, and another model."""


@pytest.mark.parametrize(("items", "parameters"), FAULTS)
def test_a_job_without_a_list_or_its_model_fails_with_an_error(
    old: Client, items: Any, parameters: dict[str, Any]
) -> None:
    made = old.create(items, **parameters, max_tokens=64)
    assert (made.status_code, made.json()["status"]) == (200, "pending")
    job = old.ended(made.json()["job_id"])
    assert (job["status"], type(job["error"])) == ("failed", str)
    assert old.results(job["job_id"]).status_code == 404


def test_without_compatibility_a_job_says_what_is_wrong_at_once_or_in_the_place_of_each_answer(
    new: Client,
) -> None:
    assert new.create({"messages": MESSAGES}).status_code == 400
    made = new.create([small_item()], vocab_lang="xx", vocab_n_words=1000, max_tokens=16)
    early = new.results(made.json()["job_id"])
    job = new.ended(made.json()["job_id"])
    assert (early.status_code in (409, 200), job["status"], job["error"]) == (True, "completed", None)
    [result] = new.results(job["job_id"]).json()
    assert result["error"]["code"] == "invalid_vocabulary"
