"""What authors' controls cost, through a running service: new words used, required words met, bits per character.

Each arm writes the same texts, 8 at a time, with seeds of its own; the service must report scores (``vocab.score``).
``python -m benchmarks.authoring --url http://127.0.0.1:8000/v1``
"""

import argparse
import os
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from openai import OpenAI

BRIEFS: Final = (
    "Tell me a story about a dog.",
    "Describe a market in the morning.",
    "Tell me about a family that moves to a new house.",
    "What happens on a rainy day at school?",
    "Write about a journey by train.",
    "Tell me about a boy who is afraid of water.",
    "Describe your best friend.",
    "Tell a story about a lost key.",
)
_WORDS: Final = (
    "river garden window bird letter music doctor winter bridge bread "
    "horse island teacher summer kitchen ship farm snow market brother"
)
POOL: Final = tuple(_WORDS.split())
"""Required words are drawn from these."""


def arms(number: int) -> dict[str, dict[str, Any]]:
    """Return by name what one text asks in each arm."""
    words = [{"word": word} for word in random.Random(number).sample(POOL, 5)]
    return {
        "no controls": {},
        "new words, 2 in 100": {"vocab": {"new_words": {"n_words": 3000, "per_100": 2}}},
        "new words, unlimited": {"vocab": {"new_words": {"n_words": 3000, "per_100": 100}}},
        "5 required words": {"vocab": {"must_use": words}},
        "best of 4": {"best_of": 4},
        "5 required words, best of 4": {"vocab": {"must_use": words}, "best_of": 4},
        "search of 3": {"vocab": {"search": {"width": 3}}},
        "5 required words, search of 3": {"vocab": {"must_use": words, "search": {"width": 3}}},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--max-tokens", type=int, default=120)
    parser.add_argument("--arms", nargs="*", help="all, if not given")
    arguments = parser.parse_args()
    client = OpenAI(base_url=arguments.url, api_key=os.environ.get("WORDBOUND_API_KEY", "changeme"))
    model = client.models.list().data[0].id

    def write(name: str, number: int) -> tuple[str, dict[str, Any]]:
        asked = arms(number)[name]
        vocab = {"lang": "en", "n_words": arguments.words, "score": True, **asked.get("vocab", {})}
        made = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": BRIEFS[number % len(BRIEFS)]}],
            max_tokens=arguments.max_tokens,
            seed=number,
            extra_body={**asked, "vocab": vocab},
        )
        return made.choices[0].message.content or "", (made.model_extra or {})["vocab"]

    print("| arm | bits per character | words | new words | closest two | required words met |")
    print("|---|---|---|---|---|---|")
    for name in arguments.arms or arms(0):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(write, [name] * arguments.texts, range(arguments.texts)))
        print(f"| {name} | {' | '.join(columns(answers))} |", flush=True)


def columns(answers: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the figures of one arm."""
    blocks = [block for _, block in answers]
    new, gaps = "", ""
    if "new_words" in blocks[0]:
        new = f"{fmean(len(block['new_words']) for block in blocks):.2f}"
        found = [
            len(text[before["start"] : after["start"]].split())
            for text, block in answers
            for before, after in pairwise(sorted(block["new_words"], key=lambda one: int(one["start"])))
        ]
        gaps = str(min(found, default=""))
    met = ""
    if "must_use" in blocks[0]:
        met = (
            f"{sum(all(one['used'] >= one['count'] for one in block['must_use']) for block in blocks)} of {len(blocks)}"
        )
    bits = fmean(block["bits_per_char"] for block in blocks)
    return [f"{bits:.3f}", f"{fmean(block['num_words'] for block in blocks):.0f}", new, gaps, met]


if __name__ == "__main__":
    main()
