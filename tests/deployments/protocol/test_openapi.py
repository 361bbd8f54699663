"""The OpenAPI document against its specification, the routes and the answers; and the page that shows it."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from deployments.batch.api import add_batch_routes
from deployments.ingress.app import create_app
from deployments.protocol.openapi import document
from deployments.settings.service import Settings
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.batch.world import BatchWorld, jsonl
from tests.deployments.front import (
    CHAT,
    COMPLETIONS,
    KEY,
    LIMITS,
    MODEL,
    Front,
    chat_body,
    completion_body,
)
from tests.deployments.protocol.readers import GOOD
from tests.deployments.stand_in import StandIn

ASSETS = ["/openapi.json", "/docs", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"]


def app() -> FastAPI:
    settings = Settings(model_id=MODEL, secret_token=KEY, limits=LIMITS)
    mount = partial(add_batch_routes, settings=settings, batches=DirectBatches())
    return create_app(settings, StandIn(), [mount])


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return document(app(), LIMITS)


def schema_of(made: dict[str, Any], name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": made["components"]})


def test_the_document_is_one(made: dict[str, Any]) -> None:
    validate(made)


def test_every_route_is_in_the_document_and_no_other(made: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, methods in made["paths"].items() for method in methods}
    served = {
        (method, route.path_format)
        for route in app().routes
        if isinstance(route, APIRoute) and route.path not in ASSETS
        for method in route.methods
    }
    assert described == served
    assert len(served) > 30


def test_every_operation_has_a_description_an_answer_and_the_shape_of_an_error(made: dict[str, Any]) -> None:
    for methods in made["paths"].values():
        for operation in methods.values():
            assert operation["description"]
            assert operation["responses"]["200"]["content"]
            assert operation["responses"]["default"]["content"]["application/json"]["schema"] == {
                "$ref": "#/components/schemas/Error"
            }


def test_all_but_health_need_a_key(made: dict[str, Any]) -> None:
    assert made["security"] == [{"key": []}, {"header": []}]
    assert [path for path, methods in made["paths"].items() if "security" in str(methods)] == ["/health", "/ready"]


def test_the_body_of_a_chat_has_the_bounds_of_the_service(made: dict[str, Any]) -> None:
    schemas = made["components"]["schemas"]
    [number, null] = schemas["ChatCompletionRequest"]["properties"]["n"]["anyOf"]
    assert (number["maximum"], null) == (LIMITS.max_n, {"type": "null"})
    assert schemas["Vocabulary"]["properties"]["words"]["anyOf"][0]["maxItems"] == LIMITS.max_list_words
    assert not schemas["Vocabulary"]["additionalProperties"]
    undescribed = [name for name, field in schemas["Vocabulary"]["properties"].items() if not field.get("description")]
    assert not undescribed


def misfits(made: dict[str, Any], bodies: Iterable[tuple[str, Any]]) -> list[str]:
    """Those that are none of what they are named."""
    return [f"{name}: {body}" for name, body in bodies if not schema_of(made, name).is_valid(body)]


def test_requests_that_are_accepted_fit_the_document(made: dict[str, Any]) -> None:
    assert not misfits(made, (("ChatCompletionRequest", chat_body(**{name: value})) for name, value in GOOD))
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    called = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    others = [
        ("ChatCompletionRequest", {"messages": called}),
        ("CompletionRequest", completion_body("Once")),
        ("CompletionRequest", completion_body([[1, 2], [3]], logprobs=0, vocab={"lang": "en"})),
        ("TokenizeRequest", {"prompt": "Once"}),
        ("TokenizeRequest", {"messages": chat_body()["messages"], "add_generation_prompt": False}),
        ("DetokenizeRequest", {"tokens": [1, 2]}),
        ("CheckRequest", {"text": "a", "vocab": {"lang": "en"}, "format": "csv", "new_words": ["b"]}),
    ]
    assert not misfits(made, others)


def test_requests_that_are_refused_for_one_field_do_not_fit_the_document(made: dict[str, Any]) -> None:
    refused = [
        ("ChatCompletionRequest", {"messages": [{"role": "user"}]}),
        ("ChatCompletionRequest", {"messages": [{"role": "tool", "content": None}]}),
        ("BatchRequest", {"input_file_id": "file-1", "endpoint": CHAT, "completion_window": "soon"}),
    ]
    assert len(misfits(made, refused)) == len(refused)


def test_the_answers_fit_the_document(made: dict[str, Any], front: Front, tmp_path: Path) -> None:
    world = BatchWorld(tmp_path)
    front.batches.service = world.service
    vocab = {"lang": "en", "n_words": 99, "prompt_words": "a map"}
    checked = {"text": "The horse saw xyzzy 42 zzz", "vocab": vocab, "new_words": ["zzz"], "words": True}
    checked |= {"names": "keep", "sentences": True, "inflected": True}
    report = front.post("/v1/vocabularies/check", checked).json()
    assert report.keys() == made["components"]["schemas"]["CheckReport"]["properties"].keys()
    prompt = {"prompt": "Tell me a story.", "max_new_tokens": 9, "vocab_lang": "en", "vocab_n_words": 1000}
    with front.client() as client:
        file = client.post("/v1/files", files={"file": ("a.jsonl", jsonl())}, data={"purpose": "batch"}).json()
        job = client.post("/v1/batch/jobs", files={"file": ("a.json", b"[{}]")}).json()
    fields = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
    answers = {
        "Health": front.get("/health").json(),
        "ModelList": front.get("/v1/models").json(),
        "Model": front.get(f"/v1/models/{MODEL}").json(),
        "ChatCompletion": front.chat().json(),
        "Completion": front.post(COMPLETIONS, completion_body()).json(),
        "Tokens": front.post("/tokenize", {"prompt": "a"}).json(),
        "DetokenizedText": front.post("/detokenize", {"tokens": [72]}).json(),
        "VocabularyList": front.get("/v1/vocabularies").json(),
        "VocabularyWords": front.get("/v1/vocabularies/en/words").json(),
        "CheckReport": report,
        "Error": front.chat(n=0).json(),
        "GenerateRequest": prompt,
        "Generated": front.post("/generate", prompt).json(),
        "File": file,
        "Batch": front.post("/v1/batches", fields).json(),
        "Job": job,
        "FilePage": front.get("/v1/files").json(),
        "BatchPage": front.get("/v1/batches").json(),
    }
    assert not misfits(made, answers.items())
    world.close()


@pytest.mark.parametrize("is_public", [True, False])
async def test_a_setting_opens_the_page_and_its_files_to_everyone(is_public: bool) -> None:
    settings = Settings(model_id=MODEL, secret_token=KEY, limits=LIMITS, public_docs=is_public)
    transport = httpx2.ASGITransport(app=create_app(settings, StandIn()))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert {(await client.get(path)).status_code for path in ASSETS} == {200 if is_public else 401}
        assert {(await client.get(path, params={"token": KEY})).status_code for path in ASSETS} == {200}
        assert (await client.get("/v1/models")).status_code == 401


def test_the_page_loads_nothing_from_elsewhere(front: Front) -> None:
    page = front.get("/docs")
    assert "//" not in re.sub(r"^ *//.*$", "", page.text, flags=re.MULTILINE)
    policy = page.headers["content-security-policy"]
    [script] = re.findall("<script>(.*?)</script>", page.text, re.DOTALL)
    assert b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "default-src 'none'" in policy
    assert "http" not in policy
