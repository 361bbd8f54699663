"""What all parts have in common: the model, the list, the time there is, and an engine that writes texts by arm."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from benchmarks.gpu.steps import ON_CPU, SCHEDULER, VARIABLE, StepCounters
from benchmarks.speed.batch import story
from benchmarks.speed.engines import ModelTokenizer
from benchmarks.speed.masks import CheckError
from deployments.settings.limits import NO_REPEAT_NGRAM_SIZE
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.lists.wordlists import WordList
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates
from vocab.options import DEFAULT_OPTIONS
from vocab.text.reader import TextReader
from vocab.vllm_plugin import MaskStatistics

T = TypeVar("T")

DEVICE: Final = "device"
ROWS: Final = "rows"
"""Free, and each step returns the row of its token."""

_COMPILING_S: Final = 0.2
"""What the references of many requests take in the engine after the last has come."""


@dataclass(frozen=True)
class World:
    """What all parts have in common.

    Attributes:
        n_words: How many of the list's words count for texts.
        rounds: Of sequences at least, and of beams; one more goes before them.
        num_steps: Of each arm with so many sequences.
        ends_at: When the last part has to end, by ``time.monotonic``.
        folder: Of the artefact and the counters.
        engine_args: Of vLLM.
        left_out: Why something was not measured, by its name.
    """

    model: str
    tokenizer: ModelTokenizer
    word_list: WordList
    words: CompiledList
    n_words: int
    max_tokens: int
    rounds: int
    num_steps: int
    ends_at: float
    folder: Path
    engine_args: dict[str, Any]
    left_out: dict[str, str]

    @property
    def left_s(self) -> float:
        return self.ends_at - time.monotonic()

    @cached_property
    def reader(self) -> TextReader:
        return TextReader(self.word_list, DEFAULT_OPTIONS, self.n_words)

    def prompt(self, number: int) -> list[int]:
        """The tokens of a request; as a chat where the model has a template for one."""
        text, encoder = story(number), self.tokenizer.hugging_face
        if getattr(encoder, "chat_template", None):
            message = [{"role": "user", "content": text}]
            return list(encoder.apply_chat_template(message, add_generation_prompt=True, return_dict=False))
        return list(encoder.encode(text))

    async def in_time(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what some work comes to; None where it had to be broken off."""
        try:
            async with asyncio.timeout(self.left_s):
                return await work
        except TimeoutError:
            return None


class Written(NamedTuple):
    """A text; of rows only the number of tokens is known."""

    tokens: Sequence[int]
    text: str


class Turn(NamedTuple):
    """Texts that were written at the same time.

    Attributes:
        texts: In the order of their prompts.
        seconds: From the first step.
        counts: Of the steps, as ``StepCounters``.
        intervals_ms: Between consecutive steps in which all texts went on by one token.
    """

    texts: list[Written]
    seconds: float
    counts: Counter[str]
    intervals_ms: list[float]


@dataclass(frozen=True)
class Engine:
    """An engine whose steps and masks are counted; ``searching`` is ``EngineBeams``."""

    world: World
    searching: Any
    counters: StepCounters
    masks: MaskStatistics
    _numbers: Iterator[int] = field(default_factory=count)

    async def write(self, arm: str, prompts: Sequence[list[int]], max_tokens: int, *, is_greedy: bool = False) -> Turn:
        """Write a text for each prompt, all from the same step on; greedy ones end where they like."""
        client, before = self.searching.client, self.counters.read()
        await client.pause_generation(mode="keep", clear_cache=False)
        async with asyncio.TaskGroup() as group:
            texts = [group.create_task(self._text(arm, prompt, max_tokens, is_greedy)) for prompt in prompts]
            while (self.counters.read() - before)["added"] < len(texts):  # noqa: ASYNC110 - by another process
                await asyncio.sleep(0.01)
            await asyncio.sleep(_COMPILING_S)
            started = time.perf_counter()
            await client.resume_generation()
        seconds = time.perf_counter() - started
        intervals = self.counters.full_intervals_ms(before, len(prompts))
        return Turn([text.result() for text in texts], seconds, self.counters.read() - before, intervals)

    async def _text(self, arm: str, prompt: list[int], max_tokens: int, is_greedy: bool) -> Written:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        from vocab.vllm_plugin.own_probabilities import rows_args, rows_of

        world, has_rows, grammar = self.world, arm == ROWS, None
        if arm in (DEVICE, ON_CPU):
            of_list = world.words.digest, DEFAULT_OPTIONS, world.n_words, max_tokens
            # As the service has it by default.
            grammar = GrammarReference(*of_list, no_repeat=NO_REPEAT_NGRAM_SIZE).to_ebnf()
        params = SamplingParams(
            # Without a seed: on a GPU vLLM draws for each sequence that has one by itself.
            temperature=0.0 if is_greedy else 1.0,
            max_tokens=max_tokens,
            # No text ends before the others.
            logit_bias=None if is_greedy else {world.tokenizer.stop_token: -100.0},
            ignore_eos=grammar is None,
            # Rows are let go as they come: 32 sequences of 128 tokens have 800 MB of them at 49,152 tokens.
            output_kind=RequestOutputKind.DELTA if has_rows else RequestOutputKind.FINAL_ONLY,
            structured_outputs=StructuredOutputsParams(grammar=grammar) if grammar else None,
            extra_args=rows_args() if has_rows else None,
        )
        tokens: list[int] = []
        text = ""
        # By the names of requests the scheduler knows the arm.
        name = f"{arm}-{next(self._numbers)}"
        async for output in self.searching.client.generate({"prompt_token_ids": prompt}, params, name):
            new = output.outputs[0]
            if has_rows and new.token_ids and len(rows_of(output)) != len(new.token_ids):
                raise CheckError(f"{len(new.token_ids)} tokens came with {len(rows_of(output))} rows")
            tokens += new.token_ids
            text += new.text
        return Written(tokens, text)


@asynccontextmanager
async def engine(world: World, *, keeps_work: bool) -> AsyncIterator[Engine]:
    """An engine of its own process."""
    from benchmarks.speed.searches import EngineBeams
    from deployments.search.tokens import Constraint

    frame = frame_for(world.words, None, DEFAULT_OPTIONS, FrameTokens.of(world.tokenizer.facts))
    reference = GrammarReference(world.words.digest, DEFAULT_OPTIONS, world.n_words)
    constraint = Constraint(reference, ListStates(world.words, frame, world.n_words))
    options = {"scheduler_cls": SCHEDULER, "seed": 0, **world.engine_args}
    dtype, counters, masks = options.pop("dtype"), StepCounters(world.folder / "steps"), MaskStatistics.share()
    os.environ[VARIABLE] = str(world.folder / "steps")
    async with EngineBeams(world.model, dtype, world.folder, constraint, keeps_work=keeps_work, **options) as beams:
        yield Engine(world, beams, counters, masks)
