"""The parts that are measured: masks, sequences, beams. Each returns rows for the record."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from benchmarks.arm import CheckError, Course
from benchmarks.engines import Definition, ModelTokenizer
from benchmarks.engines.wordbound import Wordbound
from benchmarks.gpu.steps import SCHEDULER, StepCounters, Steps
from benchmarks.texts import OPTIONS, text_sets
from benchmarks.throughput import SUBJECTS
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.lists.wordlists import WordList
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates
from vocab.options import DEFAULT_OPTIONS

Row = dict[str, Any]

NUM_BEAMS: Final = 4
SEARCHES_AT_ONCE: Final = (1, 8)
"""How many texts are searched for at the same time."""


@dataclass(frozen=True)
class World:
    """What all parts have in common.

    Attributes:
        model: A Hugging Face id or a folder.
        tokenizer: Its tokenizer.
        word_list: The list of all parts.
        words: The list, compiled for the tokenizer.
        n_words: How many of its words count for sequences and beams.
        max_tokens: Of each text.
        rounds: Of which the median counts; one more goes before them.
        folder: For the artefact and the counters.
        engine_args: Of vLLM.
    """

    model: str
    tokenizer: ModelTokenizer
    word_list: WordList
    words: CompiledList
    n_words: int
    max_tokens: int
    rounds: int
    folder: Path
    engine_args: dict[str, Any]

    @property
    def artefacts(self) -> Path:
        return self.folder / "artefacts"

    @property
    def steps_path(self) -> Path:
        return self.folder / "steps"

    def save(self) -> None:
        ArtefactFolder(self.artefacts).save(self.words)

    def reference(self, max_tokens: int | None = None) -> GrammarReference:
        return GrammarReference(self.words.digest, DEFAULT_OPTIONS, self.n_words, max_tokens)

    def prompt(self, number: int) -> list[int]:
        """The tokens of a request; as a chat where the model has a template for one."""
        text, encoder = f"Tell me story {number} about {SUBJECTS[number % len(SUBJECTS)]}.", self.tokenizer.hugging_face
        if getattr(encoder, "chat_template", None):
            message = [{"role": "user", "content": text}]
            return list(encoder.apply_chat_template(message, add_generation_prompt=True, return_dict=False))
        return list(encoder.encode(text))


def masks(world: World, sizes: Sequence[int]) -> list[Row]:
    """Microseconds of a mask at each N, as the scheduler's thread makes one; the texts are checked before."""
    engine, rows = Wordbound("wordbound", world.tokenizer), []
    for n_words in sizes:
        engine.take(world.words, Definition(world.word_list, OPTIONS, n_words))
        course = Course(engine, world.tokenizer)
        for texts in text_sets(world.word_list, n_words):
            row = {"n_words": n_words, "texts": texts.name}
            try:
                for text in texts.warm_up:
                    course.check(text)
                rows.append(row | course.time(texts))
            except CheckError as error:
                rows.append(row | {"refused": str(error)})
    return rows


@asynccontextmanager
async def engine(world: World, *, keeps_work: bool) -> AsyncIterator[Any]:
    """An engine whose steps are counted, as ``EngineBeams``."""
    from benchmarks.beam_search.ours import EngineBeams
    from deployments.search.tokens import Constraint

    frame = frame_for(world.words, None, DEFAULT_OPTIONS, FrameTokens.of(world.tokenizer.facts))
    constraint = Constraint(world.reference(), ListStates(world.words, frame, world.n_words))
    options = {"scheduler_cls": SCHEDULER, "seed": 0, **world.engine_args}
    dtype = options.pop("dtype")
    async with EngineBeams(world.model, dtype, world.artefacts, constraint, keeps_work=keeps_work, **options) as beams:
        yield beams


async def sequences(
    world: World, client: Any, batches: Sequence[int], arms: Sequence[str], *, rows_up_to: int | None = None
) -> AsyncIterator[Row]:
    """Tokens and steps per second of batches, by arm, in turn within a round.

    The arms are ``free``, ``constrained``, and ``rows``: free, and each step returns the row of its token. Batches of
    more than ``rows_up_to`` have no ``rows``.
    """
    numbers = count(1)
    for batch in batches:
        prompts = [world.prompt(number) for number in range(batch)]
        measured = [arm for arm in arms if arm != "rows" or rows_up_to is None or batch <= rows_up_to]
        figures: dict[str, list[Row]] = {arm: [] for arm in measured}
        for round_number in range(world.rounds + 1):
            for arm in measured:
                work = [_text(client, world, f"{next(numbers)}", prompt, arm) for prompt in prompts]
                row = await _measured(world, asyncio.gather(*work))
                if round_number:  # the round before warms up
                    figures[arm].append(row)
        for arm, found in figures.items():
            yield {"sequences": batch, "arm": arm, **_median(found)}


async def beams(world: World, searching: Any, *, keeps_work: bool) -> AsyncIterator[Row]:
    """Texts by beam search, one alone and several at once."""
    from benchmarks.beam_search.found import Task
    from vocab.decoding.beams import BeamRules

    async def search(tasks: list[Task]) -> int:
        return sum(len(found.tokens) for found in await searching.search(tasks))

    for at_once in SEARCHES_AT_ONCE:
        tasks = [Task(tuple(world.prompt(i)), BeamRules(NUM_BEAMS), world.max_tokens) for i in range(at_once)]
        figures = [await _measured(world, search(tasks)) for _ in range(world.rounds + 1)]
        yield {"beams": NUM_BEAMS, "at_once": at_once, "keeps_work": keeps_work, **_median(figures[1:])}


async def _text(client: Any, world: World, name: str, prompt: list[int], arm: str) -> int:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    from vocab.vllm_plugin.own_probabilities import rows_args, rows_of

    grammar = world.reference(world.max_tokens).to_ebnf() if arm == "constrained" else None
    has_rows = arm == "rows"
    params = SamplingParams(
        # Without a seed: on a GPU vLLM draws for each sequence that has one by itself.
        temperature=1.0,
        max_tokens=world.max_tokens,
        # No text ends before the others.
        logit_bias={world.tokenizer.stop_token: -100.0},
        ignore_eos=grammar is None,
        # Rows are let go as they come: 32 sequences of 128 tokens have 800 MB of them at 49,152 tokens.
        output_kind=RequestOutputKind.DELTA if has_rows else RequestOutputKind.FINAL_ONLY,
        structured_outputs=StructuredOutputsParams(grammar=grammar) if grammar else None,
        extra_args=rows_args() if has_rows else None,
    )
    num_tokens = 0
    async for output in client.generate({"prompt_token_ids": prompt}, params, name):
        num_new = len(output.outputs[0].token_ids)
        if has_rows and num_new and len(rows_of(output)) != num_new:
            raise CheckError(f"{num_new} tokens came with {len(rows_of(output))} rows")
        num_tokens += num_new
    return num_tokens


async def _measured(world: World, work: Awaitable[Any]) -> Row:
    """What some work took; it answers the tokens of its texts."""
    counters = StepCounters(world.steps_path)
    before, started = counters.read(), time.perf_counter()
    made = await work
    seconds = time.perf_counter() - started
    steps: Steps = counters.read().since(before)
    tokens = made if isinstance(made, int) else sum(made)
    return {
        "seconds": round(seconds, 4),
        "tokens": tokens,
        "tokens_per_s": round(tokens / seconds, 1),
        "steps": steps.steps,
        "steps_per_s": round(steps.steps / seconds, 1),
        "computed_tokens": steps.tokens,
        **steps.per_step(),
    }


def _median(rounds: list[Row]) -> Row:
    """The round in the middle by time, as one of a kind: its figures belong together. Of an even number the slower."""
    middle = statistics.median_high(row["seconds"] for row in rounds)
    row = next(row for row in rounds if row["seconds"] == middle)
    return row | {"all_seconds": [row["seconds"] for row in rounds]}
