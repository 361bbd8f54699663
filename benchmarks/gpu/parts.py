"""The parts that are measured: equal, sequences, beams. Each yields rows for the record."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import count, zip_longest
from operator import itemgetter
from typing import Any, Final

import numpy as np

from benchmarks.gpu.steps import ON_CPU, per_step
from benchmarks.gpu.world import DEVICE, ROWS, Engine, Turn, World

Row = dict[str, Any]

TIME_WAS_UP: Final = "the time was up (--minutes)"

NUM_EQUAL: Final = 64
"""Texts that are written twice."""

WARM_UP_TOKENS: Final = 16
"""Of texts that are not measured."""

NUM_BEAMS: Final = 4
MAX_BEAM_TOKENS: Final = 128
SEARCHES_AT_ONCE: Final = (1, 8)
"""How many texts are searched for at the same time."""


async def _has_device(engine: Engine, part: str) -> bool:
    """Return whether the device masks a text; if not, leave the part out."""
    turn = await engine.write(DEVICE, [engine.world.prompt(0)], WARM_UP_TOKENS)
    if not turn.counts["on_device"]:
        engine.world.left_out[part] = "this engine makes its masks on the CPU, and its log says why"
    return turn.counts["on_device"] > 0


async def equal(engine: Engine) -> AsyncIterator[Row]:
    """How many texts at temperature 0 are the same, whether masked on the device or on the CPU."""
    world, prompts = engine.world, [engine.world.prompt(number) for number in range(NUM_EQUAL)]
    if not await _has_device(engine, "equal"):
        return

    async def both() -> list[Turn]:
        turns = []
        for arm in (DEVICE, ON_CPU):
            # So that both compute the same prompts in the same batches, whose sizes show in floating point.
            await engine.searching.client.reset_prefix_cache()
            turns.append(await engine.write(arm, prompts, world.max_tokens, is_greedy=True))
        return turns

    if (turns := await world.in_time(both())) is None:
        world.left_out["equal"] = f"not measured: {TIME_WAS_UP}"
        return
    pairs = [(one.tokens, other.tokens) for one, other in zip(turns[0].texts, turns[1].texts, strict=True)]
    differences = {
        number: next(place for place, (one, other) in enumerate(zip_longest(*pair)) if one != other)
        for number, pair in enumerate(pairs)
        if pair[0] != pair[1]
    }
    yield {
        "texts": NUM_EQUAL,
        "equal": NUM_EQUAL - len(differences),
        "first_differences": differences,
        "on_device": [turn.counts["on_device"] / NUM_EQUAL for turn in turns],
        "num_unlisted": sum(_num_unlisted(world, turn) for turn in turns),
    }


async def sequences(
    engine: Engine, batches: Sequence[int], arms: Sequence[str], *, rows_up_to: int
) -> AsyncIterator[Row]:
    """What a step of batches takes, by arm, in turn within a round.

    What is counted are steps in which all sequences of the batch go on by one token, over all turns of an arm.
    """
    world = engine.world
    if DEVICE in arms and not await _has_device(engine, "sequences, device"):
        arms = [arm for arm in arms if arm != DEVICE]
    for batch in batches:
        prompts, num_dead = [world.prompt(number) for number in range(batch)], engine.masks.read().num_dead
        turns: dict[str, list[Turn]] = {arm: [] for arm in arms if arm != ROWS or batch <= rows_up_to}
        ended = await _take_turns(engine, prompts, turns)
        if turns.get(DEVICE):
            # What the device has counted is known here when the second text after it begins.
            for _ in range(2):
                await engine.write(DEVICE, prompts[:1], WARM_UP_TOKENS)
        for arm in arms:
            found = turns.get(arm, [])
            if num_measured := _num_steps(found):
                dead = engine.masks.read().num_dead - num_dead if arm == DEVICE else None
                yield {"sequences": batch, "arm": arm, **_pool(world, arm, found), "num_dead": dead}
            if num_measured < world.num_steps:
                reason = ended if arm in turns else f"more than --rows-up-to {rows_up_to}"
                measured = f"{num_measured} of {world.num_steps} steps measured" if num_measured else "not measured"
                world.left_out[f"sequences, {arm}, {batch:,}"] = f"{measured}: {reason}"


async def _take_turns(engine: Engine, prompts: Sequence[list[int]], turns: dict[str, list[Turn]]) -> str:
    """Write the texts of all arms in turn until there are enough steps of each; return why it ended before."""
    world = engine.world
    for round_number in count():  # the first warms up
        max_tokens = world.max_tokens if round_number else min(WARM_UP_TOKENS, world.max_tokens)
        for arm, found in turns.items():
            if (turn := await world.in_time(engine.write(arm, prompts, max_tokens))) is None:
                return TIME_WAS_UP
            if round_number:
                found.append(turn)
        if round_number >= world.rounds and all(_num_steps(found) >= world.num_steps for found in turns.values()):
            break
        if round_number and not all(found[-1].intervals_ms for found in turns.values()):
            return "they did not run all at once"
    return ""


def _num_steps(turns: Sequence[Turn]) -> int:
    return sum(len(turn.intervals_ms) for turn in turns)


def _pool(world: World, arm: str, turns: Sequence[Turn]) -> Row:
    """The figures of all turns of an arm."""
    intervals = [interval for turn in turns for interval in turn.intervals_ms]
    p10, p50, p90 = np.percentile(intervals, (10, 50, 90)).round(3).tolist()
    texts, nothing = [text for turn in turns for text in turn.texts], Counter[str]()
    counts = sum((turn.counts for turn in turns), nothing)
    is_listed = arm in (DEVICE, ON_CPU)
    return {
        "turns": len(turns),
        "intervals": len(intervals),
        "interval_ms": {"p10": p10, "p50": p50, "p90": p90},
        **_cost(sum(turn.seconds for turn in turns), sum(len(text.tokens) for text in texts), counts),
        "on_device": counts["on_device"] / len(texts) if is_listed else None,
        "num_unlisted": sum(_num_unlisted(world, turn) for turn in turns) if is_listed else None,
    }


def _num_unlisted(world: World, turn: Turn) -> int:
    """How many texts are none of the list, by the product's reader, which knows no tokens."""
    return sum(not world.reader.is_text(text.text) for text in turn.texts)


async def beams(engine: Engine, *, keeps_work: bool) -> AsyncIterator[Row]:
    """Texts by beam search, one alone and several at once; the round in the middle by time."""
    from benchmarks.speed.found import Task
    from vocab.decoding.beams import BeamRules

    world = engine.world

    async def rounds(tasks: Sequence[Task]) -> list[Row]:
        rows = []
        for _ in range(world.rounds + 1):
            before, started = engine.counters.read(), time.perf_counter()
            tokens = sum(len(found.tokens) for found in await engine.searching.search(tasks))
            rows.append(_cost(time.perf_counter() - started, tokens, engine.counters.read() - before))
        return rows

    for at_once in SEARCHES_AT_ONCE:
        max_tokens = min(MAX_BEAM_TOKENS, world.max_tokens)
        tasks = [Task(tuple(world.prompt(number)), BeamRules(NUM_BEAMS), max_tokens) for number in range(at_once)]
        if (rows := await world.in_time(rounds(tasks))) is None:
            name = f"{'forks' if keeps_work else 'beams'}, {at_once} at once"
            world.left_out[name] = f"not measured: {TIME_WAS_UP}"
            continue
        row = sorted(rows[1:], key=itemgetter("seconds"))[world.rounds // 2]
        yield {"beams": NUM_BEAMS, "at_once": at_once, "keeps_work": keeps_work, **row}


def _cost(seconds: float, tokens: int, counts: Counter[str]) -> Row:
    """What some texts took."""
    return {
        "seconds": round(seconds, 4),
        "tokens": tokens,
        "tokens_per_s": round(tokens / seconds, 1),
        "steps": counts["steps"],
        "computed_tokens": counts["tokens"],
        **per_step(counts),
    }
