"""What Prometheus reads of the running application, and what it must never read there."""

import json
import re
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.e2e.service import KEY, KEYS, Service

pytestmark = pytest.mark.e2e

MONITORING = Path(__file__).parents[2] / "configs" / "monitoring"
NAME = re.compile(r"ray_(?:wordbound|vllm|component)_[a-z_]+")
SECRET_PROMPT = "Where is the zorblatt of Quuxbury?"
SECRET_WORDS = [
    "zorblatt",
    "is",
    "at",
    "the",
    "river",
    uuid.uuid4().hex.translate(str.maketrans("0123456789", "ghijklmnop")),
]
"""With one that no earlier run had compiled."""


def queries() -> list[str]:
    """The expressions of the dashboard and of the alerts."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    alerts = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    of_panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return of_panels + [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]


def test_prometheus_has_the_alerts_that_stand_beside_its_configuration() -> None:
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    assert [(MONITORING / name).is_file() for name in config["rule_files"]] == [True]
    [job] = config["scrape_configs"]
    assert job["file_sd_configs"]


def metrics(service: Service) -> str:
    # It answers requests a moment before it says where its metrics are.
    deadline = time.monotonic() + 30
    while not (found := re.findall(r"metrics: (http\S+)", service.log_path.read_text(errors="replace"))):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return httpx2.get(found[0], timeout=30).text


def value(text: str, name: str, **labels: str) -> float:
    """The sum of a metric's values with these labels."""
    lines = [line for line in text.splitlines() if line.startswith(f"ray_wordbound_{name}{{")]
    found = [line for line in lines if all(f'{label}="{wanted}"' in line for label, wanted in labels.items())]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def wait_for(service: Service, is_there: Callable[[str], bool], missing: Collection[object]) -> str:
    """Ray's processes hand their metrics on every few seconds."""
    deadline = time.monotonic() + 60
    while not is_there(text := metrics(service)):
        assert time.monotonic() < deadline, missing
        time.sleep(1)
    return text


def test_requests_answers_lists_and_masks_are_counted(service: Service) -> None:
    before = metrics(service)
    service.ask("Tell me a story.", None, max_tokens=8)
    service.ask(SECRET_PROMPT, {"lang": "en", "words": SECRET_WORDS, "score": True}, max_tokens=16)
    for key, status in (("wrong-key-of-nobody", 401), (KEYS["other"], 400)):
        headers = {"Authorization": f"Bearer {key}"}
        answer = httpx2.post(f"{service.url}/v1/chat/completions", json={"messages": 3}, headers=headers)
        assert answer.status_code == status
    chat = {"route": "/v1/chat/completions"}
    wanted: list[tuple[float, str, dict[str, str]]] = [
        (2, "requests_total", {**chat, "status": "200"}),
        (1, "requests_total", {"status": "401", "key": "-"}),
        (1, "requests_total", {**chat, "status": "400", "key": "other"}),
        (1, "refusals_total", {"code": "invalid_api_key"}),
        (3, "request_seconds_count", chat),
        (3, "first_byte_seconds_count", chat),
        (1, "answers_total", {"constrained": "true"}),
        (1, "answers_total", {"constrained": "false"}),
        (1, "words_total", {}),
        (1, "log_mass_per_word_count", {}),
        (1, "lists_total", {"found": "compiled"}),
        (1, "compile_seconds_count", {}),
        (4, "masks_total", {}),
    ]

    def gained(text: str, name: str, labels: dict[str, str]) -> float:
        return value(text, name, **labels) - value(before, name, **labels)

    def is_there(text: str) -> bool:
        wanted[:] = [(least, name, labels) for least, name, labels in wanted if gained(text, name, labels) < least]
        return not wanted

    text = wait_for(service, is_there, wanted)
    mask_s = gained(text, "mask_seconds_total", {}) / gained(text, "masks_total", {})
    assert 0 < mask_s < 0.1
    for secret in (KEY, *KEYS.values(), "wrong-key-of-nobody", "zorblatt", "Quuxbury"):
        assert secret not in text


def test_every_metric_of_the_dashboard_and_the_alerts_is_there(service: Service) -> None:
    names = {name for query in queries() for name in NAME.findall(query)}
    assert len(names) > 15
    missing = set(names)

    def is_there(text: str) -> bool:
        # The engine's gauges are there as long as it works.
        service.ask("Tell me a story.", {"lang": "en", "n_words": 1000, "score": True}, max_tokens=16)
        missing.difference_update({name for name in missing if f"\n{name}{{" in text})
        return not missing

    wait_for(service, is_there, missing)
