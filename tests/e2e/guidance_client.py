"""Ask a running service through guidance's client of vLLM's servers; prints what came as one JSON object.

Run by ``test_guidance_client`` with the interpreter of an environment that has guidance and openai:
``python tests/e2e/guidance_client.py URL KEY MODEL``.
"""

import json
import sys
from typing import Any

from guidance import assistant, gen, select, user
from guidance.models.experimental import VLLMModel


def written(model: Any, program: Any) -> Any:
    """The model after it wrote a program's text as the assistant."""
    with user():
        model += "Tell me about a dog."
    with assistant():
        model += program
    return model


def main() -> None:
    url, key, name = sys.argv[1:]
    model = VLLMModel(name, base_url=f"{url}/v1", api_key=key, echo=False)
    free = written(model, gen("text", max_tokens=12, temperature=0))
    form = written(
        model, "Name: " + gen("name", regex="[A-Z][a-z]{2,5}") + ", " + select(["black", "brown"], name="colour")
    )
    print(json.dumps({"free": free["text"], "name": form["name"], "colour": form["colour"]}))


if __name__ == "__main__":
    main()
