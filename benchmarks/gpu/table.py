"""A run as Markdown: machine, date, versions, then a table for each part. Works on the record; measures nothing."""

from collections.abc import Iterable, Iterator
from operator import itemgetter
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
    yield f"{run['list']['lang']!r}, {run['max_tokens']} tokens a text."
    yield f"Engine: `{run['engine_args']}`."
    for row in run["equal"]:
        yield from _equal(row)
    if run["sequences"]:
        yield from _sequences(run["sequences"])
    if run["beams"]:
        yield from _beams(run["beams"])
    if run["left_out"]:
        yield from ("", "Left out:", "")
        yield from (f"- {part}: {reason}" for part, reason in run["left_out"].items())


def _equal(row: Run) -> Iterator[str]:
    on_device, on_cpu = (f"{share:.0%}" for share in row["on_device"])
    yield from (
        "",
        f"{row['equal']} of {row['texts']} texts at temperature 0 are the same, token for token, with masks on",
    )
    yield f"the device ({on_device} of the texts) and on the CPU ({on_cpu}). Not of the list: {row['num_unlisted']}."
    if row["first_differences"]:
        places = (f"text {number} at token {place}" for number, place in row["first_differences"].items())
        yield f"First differences: {', '.join(places)}."


def _sequences(rows: list[Run]) -> Iterator[str]:
    yield from ("", "Sequences at once, milliseconds between steps in which all go on by one token; of all steps, the")
    yield from ("CPU time of the scheduler in one:", "")
    free = {row["sequences"]: row["interval_ms"]["p50"] for row in rows if row["arm"] == "free"}
    cells = (
        (
            str(row["sequences"]),
            row["arm"],
            *(f"{row['interval_ms'][name]:.2f}" for name in ("p50", "p10", "p90")),
            f"{row['intervals']:,}",
            f"{free[row['sequences']] / row['interval_ms']['p50']:.1%}" if row["sequences"] in free else "",
            f"{row['tokens_per_s']:,.0f}",
            f"{row['scheduler_cpu_us']:,.0f}",
            f"{row['methods_us']['get_grammar_bitmask']:,.0f}",
            "" if row["on_device"] is None else f"{row['on_device']:.0%}",
            "" if row["num_dead"] is None else str(row["num_dead"]),
        )
        for row in sorted(rows, key=itemgetter("sequences"))
    )
    names = ("sequences", "arm", "step, ms", "10th percentile", "90th", "steps", "of free", "tokens/s")
    yield from _table((*names, "scheduler, µs", "of it masks, µs", "on the device", "dead masks"), cells)
    yield from ("", f"Texts within the list that are not of it: {sum(row['num_unlisted'] or 0 for row in rows)}.")


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
