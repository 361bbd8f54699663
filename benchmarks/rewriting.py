"""How well a text is rewritten in the words of a list: ``/v1/vocabularies/rewrite`` beside one plain chat.

    python benchmarks/rewriting.py URL --embeddings FOLDER [--words 1000] [--texts 20] [--candidates 1]

Paragraphs of public-domain prose are rewritten by a running service. Printed are the coverage of both, how near their
sentences are to the source (the cosine of embeddings, by a model of the kind of all-MiniLM-L6-v2 in FOLDER) and the
time that they took.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import httpx
import torch
from transformers import AutoModel, AutoTokenizer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from vocab.lists.wordlists import load_word_list  # noqa: E402
from vocab.options import ListOptions  # noqa: E402
from vocab.text.changes import ListChanges  # noqa: E402
from vocab.text.checker import TextChecker  # noqa: E402

PROMPT: Final = "Rewrite this text in simple words: {}"
MAX_TOKENS: Final = 200


class Embeddings:
    """Sentence embeddings: the mean of a model's last states, of length 1."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModel.from_pretrained(folder)

    def likeness(self, one: str, other: str) -> float:
        batch = self._tokenizer([one, other], padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            states = self._model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
        return float(means[0] @ means[1])


def main() -> None:
    arguments = _arguments()
    texts = (ROOT / "benchmarks" / "prose" / "paragraphs.txt").read_text(encoding="utf-8").strip().split("\n\n")
    embeddings = Embeddings(arguments.embeddings)
    vocab = {"lang": "en", "n_words": arguments.words}
    rows: dict[str, list[tuple[float, float, float]]] = {"plain": [], "rewrite": []}
    key = os.environ.get("WORDBOUND_API_KEY", "changeme")
    with httpx.Client(base_url=arguments.url, headers={"X-API-Key": key}, timeout=900) as client:
        for text in texts[: arguments.texts]:
            start = time.perf_counter()
            asked = {"vocab": vocab, "text": text, "candidates": arguments.candidates, "seed": 1}
            result = _post(client, "/v1/vocabularies/rewrite", asked)
            between = time.perf_counter()
            messages = [{"role": "user", "content": PROMPT.format(text)}]
            plain = {"messages": messages, "vocab": vocab, "max_tokens": MAX_TOKENS, "seed": 1}
            chat = _post(client, "/v1/chat/completions", plain)["choices"][0]["message"]["content"]
            end = time.perf_counter()
            names = ListChanges(tuple(result["names"]))
            checker = TextChecker(load_word_list("en", None), ListOptions(), arguments.words, names)
            for name, found, seconds in (("rewrite", result["text"], between - start), ("plain", chat, end - between)):
                likeness = embeddings.likeness(text, found)
                rows[name].append((checker.check(found).coverage or 0.0, likeness, seconds))
                print(f"{name:8} {likeness:.2f} {seconds:5.1f} s  {found!r}", flush=True)
    print(f"\n{arguments.words} words, {len(rows['plain'])} paragraphs\n")
    print("| | coverage | likeness | seconds |\n|---|---:|---:|---:|")
    for name, measured in rows.items():
        means = [sum(column) / len(measured) for column in zip(*measured, strict=True)]
        print(f"| {name} | {means[0]:.3f} | {means[1]:.2f} | {means[2]:.1f} |")


def _post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    if answer.is_error:
        sys.exit(answer.text)
    result: dict[str, Any] = answer.json()
    return result


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--embeddings", type=Path, required=True)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
