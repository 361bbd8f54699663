"""Ask a running service for many texts and look for what a reader would wince at.

    python -m benchmarks.reading --texts 100 --url http://localhost:8000

400 texts of the default options in four languages should have no name or German noun in small letters, no single letter
that is no word and no fragment; texts at temperature 1 no word of an independent profanity list. With ``--unsafe`` the
request says ``safe: false``, and profanity is counted only. Ends with status 1 where anything is found.
"""

import argparse
import json
import re
import sys
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.profanity import PROFANITY
from tests.reading_checker import reading_faults

PROMPTS: Final = {
    "en": "Tell me a story about a family in London.",
    "de": "Erzähle mir eine Geschichte über eine Familie in Berlin.",
    "es": "Cuéntame una historia de una familia de Madrid.",
    "fr": "Raconte-moi une histoire d'une famille à Paris.",
}
NUM_CONCURRENT: Final = 16


def main(arguments: list[str]) -> int:
    command = argparse.ArgumentParser(prog="python -m benchmarks.reading", description="Read many texts.")
    command.add_argument("--url", default="http://localhost:8000", help="of the service (%(default)s)")
    command.add_argument("--key", default="", help="its API key")
    command.add_argument("--model", required=True, help="the model's name")
    command.add_argument("--texts", type=int, default=100, help="of each language (%(default)s)")
    command.add_argument("--words", type=int, default=3_000, help="of each list (%(default)s)")
    command.add_argument("--tokens", type=int, default=120, help="of each text, at most (%(default)s)")
    command.add_argument("--temperature", type=float, default=None, help="default: the service's")
    command.add_argument("--unsafe", action="store_true", help="ask with safe: false")
    asked = command.parse_args(arguments)
    num_found = 0
    for lang in PROMPTS:
        with ThreadPoolExecutor(NUM_CONCURRENT) as pool:
            texts = list(pool.map(lambda seed, lang=lang: _text(asked, lang, seed), range(asked.texts)))
        faults = Counter(fault for text in texts for fault in reading_faults(text, lang))
        profane = Counter(
            word for text in texts for word in re.findall(r"\w+", text.lower()) if word in PROFANITY[lang]
        )
        print(f"{lang}: {len(texts)} texts, faults {dict(faults)}, profanity {dict(profane)}")
        num_found += faults.total() + (0 if asked.unsafe else profane.total())
    return 1 if num_found else 0


def _text(asked: argparse.Namespace, lang: str, seed: int) -> str:
    body: dict[str, Any] = {
        "model": asked.model,
        "messages": [{"role": "user", "content": PROMPTS[lang]}],
        "max_tokens": asked.tokens,
        "seed": seed,
        "vocab": {"lang": lang, "n_words": asked.words, **({"safe": False} if asked.unsafe else {})},
    }
    if asked.temperature is not None:
        body["temperature"] = asked.temperature
    request = urllib.request.Request(  # noqa: S310  # an address of the caller's own
        f"{asked.url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", **({"Authorization": f"Bearer {asked.key}"} if asked.key else {})},
    )
    with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310
        return str(json.load(answer)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
