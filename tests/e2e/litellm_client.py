"""Ask a running service through LiteLLM, its client and its proxy, and print what came as one JSON object.

Run by ``test_litellm`` with the interpreter of an environment that has ``litellm[proxy]``:
``python tests/e2e/litellm_client.py URL KEY MODEL FOLDER``; the folder has the proxy's ``litellm.yaml``, that of
docs/clients.md.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import litellm
import openai

VOCAB = {"lang": "en", "n_words": 500}
MESSAGES = [{"role": "user", "content": "Tell me a story about a dog."}]
PROMPT = "Once upon a time, there was a dog. "
HOW: dict[str, Any] = {"max_tokens": 40, "temperature": 0}
PROXY_KEY = "sk-change-me"
ALIAS = "story-writer"


def result(answer: Any) -> dict[str, Any]:
    """The text of an answer and its ``vocab`` block, None where it has none."""
    choice = answer.choices[0]
    text = choice.message.content if hasattr(choice, "message") else choice.text
    return {"text": text, "vocab": getattr(answer, "vocab", None)}


def streamed(chunks: Any) -> dict[str, Any]:
    text, vocab = "", None
    for chunk in chunks:
        vocab = getattr(chunk, "vocab", None) or vocab
        for choice in chunk.choices:
            part = choice.delta.content if hasattr(choice, "delta") else choice.text
            text += part or ""
    return {"text": text, "vocab": vocab}


def by_client(url: str, key: str, model: str) -> dict[str, Any]:
    """What LiteLLM's own functions give."""
    where: dict[str, Any] = {"api_base": f"{url}/v1", "api_key": key}
    chat = {**where, "model": f"openai/{model}", "messages": MESSAGES, **HOW}
    text = {**where, "model": f"text-completion-openai/{model}", "prompt": PROMPT, **HOW}
    return {
        "chat": result(litellm.completion(**chat, extra_body={"vocab": VOCAB})),
        "stream": streamed(litellm.completion(**chat, stream=True, extra_body={"vocab": VOCAB})),
        "free": result(litellm.completion(**chat)),
        "completion": result(litellm.text_completion(**text, extra_body={"vocab": VOCAB})),
        "bad": refusal(lambda: litellm.completion(**{**chat, "n": 99})),
    }


def by_proxy(url: str) -> dict[str, Any]:
    """What the ``openai`` package gives, asking LiteLLM's proxy."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=PROXY_KEY, max_retries=0, timeout=300) as client:
        create: Any = client.chat.completions.create
        chat = {"model": ALIAS, "messages": MESSAGES, **HOW}
        return {
            "models": [model.id for model in client.models.list()],
            "chat": result(create(**chat, extra_body={"vocab": VOCAB})),
            "stream": streamed(create(**chat, stream=True, extra_body={"vocab": VOCAB})),
            "fixed": result(create(**{**chat, "model": f"{ALIAS}-1000"})),
            "bad": refusal(lambda: create(**chat, extra_body={"vocab": {"lang": "xx"}})),
        }


def refusal(ask: Any) -> dict[str, Any]:
    try:
        ask()
    except openai.APIStatusError as error:
        return {"status": error.status_code, "message": error.message}
    return {}


@contextmanager
def proxy(folder: Path) -> Iterator[str]:
    """Starts LiteLLM's proxy with the ``litellm.yaml`` of the folder and yields its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(sys.executable).parent / "litellm"
    command = [str(program), "--config", str(folder / "litellm.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "litellm.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(f"http://127.0.0.1:{port}/health/liveliness", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def wait_for(address: str, process: subprocess.Popen[bytes], timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - our own address
                return
        except OSError:
            time.sleep(1)
    raise RuntimeError("LiteLLM's proxy did not start")


def main(url: str, key: str, model: str, folder: str) -> None:
    client = by_client(url, key, model)
    with proxy(Path(folder)) as at:
        print(json.dumps({"client": client, "proxy": by_proxy(at)}, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
