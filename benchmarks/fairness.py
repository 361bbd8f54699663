"""Whether one loud key slows another: each route in turn with its worst body, beside another key's chats and checks.

    python -m benchmarks fairness [--seconds 15] [--routes NAME …]

Starts the demo with three keys. For each route eight connections of the key ``loud`` send its body again and again;
meanwhile the key ``other`` asks for a streamed chat in 1,000 words, whose first token counts, and has a short text
checked. A row has both keys' answers by status, and the median, the 99th percentile and the longest wait of ``other``.
"""

import argparse
import asyncio
import hashlib
import io
import json
import statistics
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final

import httpx

from tests.harness import Demo
from vocab.lists.wordlists import load_word_list

NUM_LOUD: Final = 8
REQUEST_TIMEOUT_S: Final = 120.0
SETTLE_S: Final = 3.0
KEYS: Final = {name: f"key-of-{name}" for name in ("loud", "other")}

VOCAB: Final = {"lang": "en", "n_words": 1000}
WORDS: Final = load_word_list("en", None).words
LONG_TEXT: Final = " ".join(" ".join(WORDS[i : i + 10]) + "." for i in range(0, 5000, 10))


@dataclass
class Waits:
    """Answers of one kind: how many had each status, and how long each took, in seconds."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.seconds:
            return f"– · {self.answers}"
        ordered = sorted(self.seconds)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        return f"{statistics.median(ordered):.2f} · {p99:.2f} · {ordered[-1]:.2f} s ({self.answers})"

    @property
    def answers(self) -> str:
        return ", ".join(f"{number} × {status}" for status, number in self.statuses.most_common())


LANGUAGES: Final = "en es de fr it pt nl sv da fi pl cs ru uk tr el he ar fa hi bn ca ro hu bg lt lv is id ms vi ta"

Request = tuple[str, str, dict[str, Any]]
"""Method, path, and further arguments of ``httpx``'s ``request``."""


def _post(path: str, **body: Any) -> Callable[[], Request]:
    return lambda: ("POST", path, {"json": body})


def _chat(**body: Any) -> Callable[[], Request]:
    messages = [{"role": "user", "content": "Tell me a long story about a dog."}]
    return _post("/v1/chat/completions", **{"messages": messages, "max_tokens": 1024, "vocab": VOCAB, **body})


def _own_lists() -> Callable[[], Request]:
    """A list of 40,000 words that was never seen before, in each request."""
    endings = count()

    def make() -> Request:
        ending = "".join("abcdefghij"[int(digit)] for digit in str(next(endings)))
        return _chat(vocab={"words": [word + ending for word in WORDS[:40_000]]}, max_tokens=4)()

    return make


def _searches() -> Callable[[], Request]:
    turns = cycle(LANGUAGES.split())
    return lambda: ("GET", f"/v1/vocabularies/{next(turns)}/words?q=a&limit=1000", {})


def _documents() -> Callable[[], Request]:
    """A DOCX of a few KB that is 60 MB of one character."""
    body = b'<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    body += b"<w:body><w:p><w:r><w:t>" + "‹".encode() * 20_000_000 + b"</w:t></w:r></w:p></w:body></w:document>"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", body)
    content = packed.getvalue()
    return lambda: ("POST", "/v1/documents/text?name=a.docx", {"content": content})


def _jobs() -> Callable[[], Request]:
    line = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 256, "vocab": VOCAB}
    lines = json.dumps([line] * 500).encode()
    return lambda: ("POST", "/v1/batch/jobs", {"files": {"file": ("lines.json", lines, "application/json")}})


def _uploads() -> Callable[[], Request]:
    content = b'{"custom_id": "a"}\n' * 500_000
    return lambda: ("POST", "/v1/files", {"files": {"file": ("a.jsonl", content)}, "data": {"purpose": "batch"}})


PROMPTS: Final = [[1000 + i, *range(2000, 2900)] for i in range(8)]
SCHEMA: Final = {
    "type": "json_schema",
    "json_schema": {"name": "deep", "schema": {"$ref": "#" + "/a" * 10_000}},
}

ROUTES: Final[dict[str, Callable[[], Request]]] = {
    "chat, n 8": _chat(n=8),
    "chat, 16 beams": _chat(num_beams=16, max_tokens=256),
    "chat, best of 16": _chat(best_of=16),
    "chat, own list": _own_lists(),
    "chat, JSON schema": _chat(vocab=None, response_format=SCHEMA),
    "completions": _post("/v1/completions", prompt=["A long story"] * 8, max_tokens=1024, vocab=VOCAB),
    "tokenize": _post("/tokenize", prompt=LONG_TEXT * 40),
    "detokenize": _post("/detokenize", tokens=[1000] * 100_000),
    "logprobs": _post("/v1/logprobs", prompt=PROMPTS),
    "token_logprobs": _post("/v1/token_logprobs", prompt=PROMPTS[0], token_ids=list(range(1000, 1100))),
    "tokens": lambda: ("GET", "/v1/tokens", {}),
    "check": _post("/v1/vocabularies/check", text=LONG_TEXT * 40, vocab={"lang": "en", "n_words": 3000}),
    "next": _post("/v1/vocabularies/next", text="The cat sat on the", vocab=VOCAB, top=100),
    "swap": _post("/v1/vocabularies/swap", text=LONG_TEXT[:4000], start=0, end=3, vocab=VOCAB),
    "rewrite": _post("/v1/vocabularies/rewrite", text=LONG_TEXT[:19_900], vocab=VOCAB),
    "words": _searches(),
    "documents": _post("/v1/documents", title="A", text=LONG_TEXT[:100_000]),
    "documents/text": _documents(),
    "files": _uploads(),
    "batch/jobs": _jobs(),
    "openapi": lambda: ("GET", "/openapi.json", {}),
}  # fmt: skip


async def main() -> None:
    arguments = _arguments()
    names = arguments.routes or list(ROUTES)
    hashes = {name: {"sha256": hashlib.sha256(key.encode()).hexdigest()} for name, key in KEYS.items()}
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(arguments.model, Path(folder), {"keys": hashes})
        try:
            demo.start()
            demo.wait_until_ready()
            async with httpx.AsyncClient(base_url=demo.url, timeout=REQUEST_TIMEOUT_S) as client:
                alone = await _measure(client, None, arguments.seconds)
                print("\nMedian, p99 and longest wait, and answers by status.\n")
                print("| loud on | another key's first token | another key's check | loud key's answers |")
                print("|---|---|---|---|")
                print(f"| nothing | {alone[0]} | {alone[1]} | |", flush=True)
                for name in names:
                    chats, checks, loud = await _measure(client, ROUTES[name], arguments.seconds)
                    print(f"| {name} | {chats} | {checks} | {loud.answers} |", flush=True)
                    await asyncio.sleep(SETTLE_S)
        finally:
            demo.stop()


async def _measure(
    client: httpx.AsyncClient, loud: Callable[[], Request] | None, seconds: float
) -> tuple[Waits, Waits, Waits]:
    chats, checks, louds = Waits(), Waits(), Waits()
    senders = [asyncio.create_task(_repeat(client, loud, louds)) for _ in range(NUM_LOUD)] if loud else []
    # The loud requests come first.
    await asyncio.sleep(1.0)
    end = time.monotonic() + seconds
    others = (_until(end, lambda: _first_token(client, chats)), _until(end, lambda: _check(client, checks)))
    await asyncio.gather(*others)
    for sender in senders:
        sender.cancel()
    await asyncio.gather(*senders, return_exceptions=True)
    return chats, checks, louds


async def _repeat(client: httpx.AsyncClient, make: Callable[[], Request], waits: Waits) -> None:
    while True:
        method, path, args = make()
        start = time.monotonic()
        try:
            answer = await client.request(method, path, headers=_key("loud"), **args)
            waits.statuses[str(answer.status_code)] += 1
            waits.seconds.append(time.monotonic() - start)
            if answer.is_error:
                # As a client that does not heed ``Retry-After``, but is no flood.
                await asyncio.sleep(0.05)
        except httpx.HTTPError as error:
            waits.statuses[type(error).__name__] += 1
            await asyncio.sleep(0.05)


async def _until(end: float, ask: Callable[[], Any]) -> None:
    while time.monotonic() < end:
        await ask()


async def _first_token(client: httpx.AsyncClient, waits: Waits) -> None:
    body = {
        "messages": [{"role": "user", "content": "Hello"}], "vocab": VOCAB, "max_tokens": 8, "stream": True
    }  # fmt: skip
    start = time.monotonic()
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body, headers=_key("other")) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and '"content":' in line and '"content":""' not in line:
                    waits.seconds.append(time.monotonic() - start)
                    break
            waits.statuses[str(answer.status_code)] += 1
    except httpx.HTTPError as error:
        waits.statuses[type(error).__name__] += 1


async def _check(client: httpx.AsyncClient, waits: Waits) -> None:
    start = time.monotonic()
    try:
        body = {"text": "The dog is a friend.", "vocab": VOCAB}
        answer = await client.post("/v1/vocabularies/check", json=body, headers=_key("other"))
        waits.statuses[str(answer.status_code)] += 1
        waits.seconds.append(time.monotonic() - start)
    except httpx.HTTPError as error:
        waits.statuses[type(error).__name__] += 1
    await asyncio.sleep(0.2)


def _key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {KEYS[name]}"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--routes", nargs="*", choices=list(ROUTES))
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
