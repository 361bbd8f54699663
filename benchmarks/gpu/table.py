"""A run as Markdown: machine, date, versions, then a table for each part. Works on the record; measures nothing."""

from collections.abc import Iterable, Iterator
from typing import Any

Run = dict[str, Any]


def markdown(run: Run) -> str:
    """Return the whole page of a run."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: Run) -> Iterator[str]:
    hardware, model = run["hardware"], run["model"]
    yield f"{run['date']}; {hardware['accelerator']}; {hardware['cpu']}, {hardware['cores']} cores,"
    yield f"{hardware['memory_gib']} GiB, load before {hardware['load_before'][0]}, {hardware['system']}."
    yield ", ".join(f"{name} {version}" for name, version in run["versions"].items()) + "."
    yield f"Model {model['name']} (weights: {model['load_format']}), {run['list']['n_words']:,} words of"
    yield f"{run['list']['lang']!r}, {run['max_tokens']} tokens a text, median of {run['rounds']} rounds."
    yield f"Engine: `{run['engine_args']}`."
    if run["masks"]:
        yield from _masks(run["masks"])
    if run["sequences"]:
        yield from _sequences(run["sequences"])
    if run["beams"]:
        yield from _beams(run["beams"])
    if run["left_out"]:
        yield from ("", "Left out:", "")
        yield from (f"- {part}: {reason}" for part, reason in run["left_out"].items())


def _masks(rows: list[Run]) -> Iterator[str]:
    yield from ("", "One mask, by the number of words, in microseconds on one thread:", "")
    cells = (
        (
            f"{row['n_words']:,}",
            row["texts"],
            *((f"{row['mask_us']['p50']:.1f}", f"{row['mask_us']['p99']:.1f}", f"{row['accept_us']['p50']:.1f}")
              if "mask_us" in row else (row["refused"], "", "")),
        )
        for row in rows
    )  # fmt: skip
    yield from _table(("words", "texts", "mask, median", "99th percentile", "accepted token"), cells)


def _sequences(rows: list[Run]) -> Iterator[str]:
    yield from ("", "Sequences at once; per step, CPU time of the scheduler and of the engine's process:", "")
    free = {row["sequences"]: row["tokens_per_s"] for row in rows if row["arm"] == "free"}
    cells = (
        (
            str(row["sequences"]),
            row["arm"],
            f"{row['tokens_per_s']:,.0f}",
            f"{row['tokens_per_s'] / free[row['sequences']]:.1%}" if row["sequences"] in free else "",
            f"{row['steps_per_s']:.1f}",
            f"{row['scheduler_cpu_us']:,.0f}",
            f"{row['methods_us']['get_grammar_bitmask']['cpu']:,.0f}",
            f"{row['engine_cpu_us']:,.0f}",
        )
        for row in rows
    )
    names = ("sequences", "arm", "tokens/s", "of free", "steps/s", "scheduler, µs", "of it masks, µs", "process, µs")
    yield from _table(names, cells)


def _beams(rows: list[Run]) -> Iterator[str]:
    yield from ("", "Beam search under the list; computed are the tokens of all steps, prompts included:", "")
    cells = (
        (
            f"{row['beams']}",
            str(row["at_once"]),
            "kept" if row["keeps_work"] else "computed again",
            f"{row['seconds']:.2f}",
            f"{row['tokens_per_s']:,.1f}",
            f"{row['computed_tokens']:,}",
            f"{row['steps']:,}",
            f"{row['scheduler_cpu_us']:,.0f}",
        )
        for row in rows
    )
    names = ("beams", "texts at once", "work of a step", "seconds", "tokens/s", "computed", "steps", "scheduler, µs")
    yield from _table(names, cells)


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = tuple(names)
    yield f"| {' | '.join(names)} |"
    yield "|" + "---:|" * len(names)
    yield from (f"| {' | '.join(row)} |" for row in rows)
