"""Requests made from ``/openapi.json``, right and wrong ones: none fails or hangs, and each answer is one that the
document describes."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.schemas import BaseSchema

from tests.e2e.service import KEY, MODEL, Service

pytestmark = pytest.mark.e2e

ANSWER_TIMEOUT_S: Final = 60
"""For what hangs: a rewrite takes 5 s on a slow machine."""

NUM_EXAMPLES: Final = settings().max_examples // 4
"""Of right and of wrong requests each, for each operation."""

MOST: Final = {
    "max_tokens": 4, "max_completion_tokens": 4, "max_new_tokens": 4, "min_tokens": 2, "n": 2, "best_of": 2,
    "num_beams": 2, "width": 2, "min_sentences": 1, "candidates": 1, "top": 3,
}  # fmt: skip
"""What a request may ask for here, so that it is soon answered on two cores. Smaller values and other types stay."""

LENGTHS: Final = {"/v1/chat/completions": "max_tokens", "/v1/completions": "max_tokens", "/generate": "max_new_tokens"}
"""What bounds an answer, and may be left out of a request."""

WORD_TOOLS: Final = tuple(f"/v1/vocabularies/{tool}" for tool in ("check", "next", "swap", "rewrite"))
LIST: Final = {"lang": "en", "n_words": 1000}


@pytest.fixture(scope="module")
def schema(service: Service) -> BaseSchema:
    made: BaseSchema = schemathesis.openapi.from_url(f"{service.url}/openapi.json", headers={"X-API-Key": KEY})
    made.config.generation.update(with_security_parameters=False, allow_x00=True)
    return made


@pytest.fixture(scope="module")
def session(service: Service) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers["X-API-Key"] = KEY
        yield session


@pytest.fixture(scope="module")
def known(service: Service, session: requests.Session) -> dict[str, str]:
    """Parts of paths that there are."""
    files = {"file": ("lines.jsonl", b'{"custom_id": "a"}')}
    made = session.post(f"{service.url}/v1/files", files=files, data={"purpose": "batch"}, timeout=30).json()
    return {"file_id": made["id"], "list_id": "en", "name": MODEL}


def bounded(value: Any) -> Any:
    """Return a part of a body that asks for little."""
    if isinstance(value, list):
        return [bounded(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        # JSON Schema takes it for an integer, and readers do not.
        return int(value)
    if not isinstance(value, dict):
        return value
    made = {name: bounded(item) for name, item in value.items()}
    return {name: min(item, MOST[name]) if name in MOST and type(item) is int else item for name, item in made.items()}


def prepare(case: Case, known: dict[str, str]) -> None:
    """Bound what an answer costs; with ``known``, name the model, lists and files that there are."""
    case.path_parameters = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
    if not isinstance(case.body, dict) or case.media_type != "application/json":
        return
    body: dict[str, Any] = bounded(case.body)
    # Null is as good as none, and means all that the service allows.
    lengths = ("max_tokens", "max_completion_tokens", "max_new_tokens")
    if case.path in LENGTHS and all(body.get(name) is None for name in lengths):
        body[LENGTHS[case.path]] = 4
    if known:
        body |= {"model": MODEL} if "model" in body else {}
        body |= {"vocab_lang": "en", "vocab_n_words": 1000} if "vocab_lang" in body else {}
        if isinstance(body.get("vocab"), dict):
            body = {name: value for name, value in body.items() if not name.startswith("vocab_")}
            body["vocab"] = {**body["vocab"], **LIST} if "words" not in body["vocab"] else body["vocab"]
        elif case.path in WORD_TOOLS and "vocab_lang" not in body:
            body["vocab"] = LIST
    case.body = body


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
def test_no_request_fails_or_hangs(
    schema: BaseSchema, session: requests.Session, known: dict[str, str], mode: GenerationMode, subtests: Any
) -> None:
    checks = CHECKS.get_by_names(["response_schema_conformance", "content_type_conformance"])
    num_asked = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        # Not made smaller: each try may take seconds.
        @settings(
            max_examples=NUM_EXAMPLES,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), names=st.sampled_from([known, known, {}]))
        def ask(case: Case, names: dict[str, str]) -> None:
            nonlocal num_asked
            prepare(case, names)
            answer = case.call(session=session, timeout=ANSWER_TIMEOUT_S)
            num_asked += 1
            assert answer.status_code < 500, answer.text
            case.validate_response(answer, checks=checks)

        with subtests.test(operation=operation.label):
            try:
                ask()
            except Unsatisfiable:
                # Nothing of a request without parameters can be wrong.
                assert mode is GenerationMode.NEGATIVE
    assert num_asked > 10 * NUM_EXAMPLES
