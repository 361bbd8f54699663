"""The answers of the running service, asked through the ``openai`` package: eight at once, and one at a time.

It measures time; what a text is worth is judged elsewhere.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import openai

from benchmarks.prose.records import Cell, Record, Records

NUM_CONCURRENT: Final = 8
NUM_ALONE: Final = 4
"""Prompts that are asked again, one at a time, for the seconds of an answer when nobody else asks."""


class RefusedError(Exception):
    """The service does not take this method's requests, or does something else; the text says why."""


def measure_served(
    client: openai.OpenAI,
    records: Records,
    run: str,
    cell: Cell,
    prompts: Sequence[str],
    num_alone: int = NUM_ALONE,
    num_concurrent: int = NUM_CONCURRENT,
) -> int:
    """Asks what is not known yet of a cell, with a seed of its own for each prompt if the method names none; how many
    answers came.

    Raises:
        RefusedError: A request got a 4xx, or an answer that does not say what its search generated.
    """

    def ask(index: int, kind: str) -> bool:
        started = time.monotonic()
        try:
            answer = _answer(client, cell, prompts[index], seed=index + 1)
        except openai.APIStatusError as error:
            if error.status_code < 500:
                raise RefusedError(error.message) from None
            print(f"    prompt {index}: {error.message}", flush=True)
            return False
        except openai.APIConnectionError as error:
            print(f"    prompt {index}: {error}", flush=True)
            return False
        times = {"started": started, "ended": time.monotonic()}
        records.add(
            {"kind": kind, "run": run, **cell.key, "prompt": prompts[index], "number": index, **answer, **times}
        )
        return True

    num_answers = 0
    with ThreadPoolExecutor(num_concurrent) as pool:
        futures = [pool.submit(ask, index, "answer") for index in missing(records, "answer", cell, prompts)]
        try:
            num_answers += sum(future.result() for future in futures)
        finally:
            pool.shutdown(cancel_futures=True)
    for index in missing(records, "alone", cell, prompts[:num_alone]):
        num_answers += ask(index, "alone")
    return num_answers


def missing(records: Records, kind: str, cell: Cell, prompts: Sequence[str]) -> list[int]:
    """The places of the prompts of which there is no record yet."""
    known = {record["prompt"] for record in records.of(kind, cell)}
    return [index for index, prompt in enumerate(prompts) if prompt not in known]


def _answer(client: openai.OpenAI, cell: Cell, prompt: str, seed: int) -> Record:
    extra = dict(cell.method.fields)
    if cell.n_words is not None:
        extra["vocab"] = {"lang": cell.lang, "n_words": cell.n_words, **cell.method.vocab}
    create: Any = client.chat.completions.create
    made = create(
        model=cell.model,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=cell.num_tokens,
        seed=seed,
        extra_body=extra,
    )
    choice, vocab = made.choices[0], (made.model_extra or {}).get("vocab")
    num_tokens = made.usage.completion_tokens
    if cell.method.searches and "generated_tokens" not in (vocab or {}):
        raise RefusedError("the answer is no search's: its vocab block has no generated_tokens")
    return {
        "text": choice.message.content or "",
        "is_ended": choice.finish_reason == "stop",
        "num_answer_tokens": num_tokens,
        "num_generated_tokens": (vocab or {}).get("generated_tokens", num_tokens),
        "vocab": vocab,
    }
