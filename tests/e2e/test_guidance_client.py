"""The service behind guidance's own client of vLLM's servers, in an environment of its own."""

import json
import re
import subprocess

import openai
import pytest

from tests.e2e.environments import interpreter_with
from tests.e2e.service import KEY, MODEL, Service
from tests.pages import ROOT

pytestmark = pytest.mark.e2e


def test_programs_write_over_http(service: Service) -> None:
    python = interpreter_with("guidance[all]==0.3.1")
    command = [str(python), "tests/e2e/guidance_client.py", service.url, KEY, MODEL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["free"]
    assert re.fullmatch("[A-Z][a-z]{2,5}", result["name"])
    assert result["colour"] in ("black", "brown")


def test_older_names_alone_are_refused(service: Service) -> None:
    create = service.client.chat.completions.create
    with pytest.raises(openai.BadRequestError, match="guided_grammar"):
        create(
            model=MODEL, messages=[{"role": "user", "content": "Hello"}], extra_body={"guided_grammar": 'root ::= "a"'}
        )
