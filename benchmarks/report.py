"""What a run of the mask benchmark says: its tables, how far the engines agree, and the goals it is held against.

Works on the record that is also written as JSON; measures nothing. `python -m benchmarks.report RUN.json` prints a run
again, and the table of it that the README has.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

Run = dict[str, Any]
Result = dict[str, Any]

OURS: Final = "wordbound"
BIG_VOCABULARY: Final = 262_144
"""The size of vocabulary that the goals in microseconds are set for."""


def compare_masks(run: Run) -> None:
    """Replaces the checksums of each engine's masks by the share of them that equal ours."""
    for result in run["results"]:
        ours = (_result(run, OURS, result["n_words"]) or {}).get("sets", {})
        for name, figures in result.get("sets", {}).items():
            theirs, right = figures.get("mask_signatures"), ours.get(name, {}).get("mask_signatures")
            if theirs and right:
                figures["masks_equal"] = sum(map(int.__eq__, right, theirs)) / len(right)
    for result in run["results"]:
        for figures in result.get("sets", {}).values():
            figures.pop("mask_signatures", None)


def goals(run: Run) -> list[dict[str, Any]]:
    """Each goal with what was measured; of several kinds of texts the worse counts."""
    smallest, largest = min(_sizes(run)), max(_sizes(run))
    ours, few = _result(run, OURS, largest), _result(run, OURS, smallest)
    if not ours or not few or ours["status"] != "measured" or few["status"] != "measured":
        return []
    found = []
    if run["tokenizer"]["num_tokens"] >= BIG_VOCABULARY:
        all_sizes = [result for n in _sizes(run) if (result := _result(run, OURS, n))]
        found += [
            _goal("mask p50, µs, all N", max(_all(all_sizes, "mask_us", "p50")), at_most=4),
            _goal("mask p99, µs, all N", max(_all(all_sizes, "mask_us", "p99")), at_most=12),
            _goal("accept p50, µs, all N", max(_all(all_sizes, "accept_us", "p50")), at_most=2),
        ]
    by_set = [(ours["sets"][name]["mask_us"]["p50"], few["sets"][name]["mask_us"]["p50"]) for name in ours["sets"]]
    found += [
        _goal(f"mask p50 at {largest:,} words / at {smallest:,}", max(a / b for a, b in by_set), at_most=2),
        _goal(f"mask p50 at {largest:,} / copy of a row", max(a for a, _ in by_set) / ours["copy_us"]["p50"],
              at_most=2.5),
    ]  # fmt: skip
    for library, times in (("llguidance", 200), ("xgrammar", 2000)):
        theirs = [result for result in run["results"] if result["engine"].startswith(library)]
        at_largest = [result for result in theirs if result["n_words"] == largest and result["status"] == "measured"]
        name = f"{library} p50 / ours, {largest:,} words"
        if at_largest:
            ratios = [
                figures["mask_us"]["p50"] / ours["sets"][kind]["mask_us"]["p50"]
                for result in at_largest
                for kind, figures in result["sets"].items()
                if "mask_us" in figures
            ]
            found.append(_goal(name, min(ratios), at_least=times))
        elif theirs:
            found.append({"goal": name, "limit": f">= {times}", "measured": None, "met": None})
    return found


def tables(run: Run) -> str:
    """The whole run as text."""
    return "\n".join([*_heading(run), "", *_compiles(run), "", *_masks(run), "", *_remarks(run), "", *_goal_lines(run)])


def _heading(run: Run) -> Iterator[str]:
    hardware, tokenizer = run["hardware"], run["tokenizer"]
    yield (
        f"{run['lang']}: {run['list']['num_words']:,} words of {run['list']['source']}; {tokenizer['name']}, "
        f"{tokenizer['num_tokens']:,} tokens; {run['date']}"
    )
    yield (
        f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB, {hardware['system']}; "
        f"one thread; load before {hardware['load_before'][0]}"
    )
    yield ", ".join(f"{name} {version}" for name, version in run["versions"].items())


def _compiles(run: Run) -> Iterator[str]:
    yield (
        f"{'words':>7}  {'engine':<20}{'prepare s':>10}{'compile s':>10}{'grammar KB':>11}{'artefact KB':>12}"
        f"{'added MiB':>10}{'of files':>9}{'peak MiB':>9}"
    )
    for result in run["results"]:
        yield (
            f"{result['n_words']:>7,}  {result['engine']:<20}{_number(result.get('prepare_s'), 2):>10}"
            f"{_number(result.get('compile_s'), 2):>10}{_number(_thousandth(result.get('grammar_bytes')), 0):>11}"
            f"{_number(_thousandth(result.get('artefact_bytes')), 0):>12}{_number(result.get('added_mib'), 0):>10}"
            f"{_number(result.get('added_file_mib'), 0):>9}{_number(result.get('peak_mib'), 0):>9}"
        )


def _masks(run: Run) -> Iterator[str]:
    yield f"{'':7}  {'':20}{'':10}{'mask, µs':^33}{'accept, µs':^30}{'masks':>7}"
    yield (
        f"{'words':>7}  {'engine':<20}{'texts':<10}{'p50':>11}{'p99':>11}{'max':>11}{'p50':>10}{'p99':>10}{'max':>10}"
        f"{'timed':>7}{'equal ours':>12}"
    )
    for result in run["results"]:
        start = f"{result['n_words']:>7,}  {result['engine']:<20}"
        if result["status"] != "measured":
            yield f"{start}{result['status']}: {result.get('message', '')}"
            continue
        for name, figures in result["sets"].items():
            if "refused" in figures:
                yield f"{start}{name:<10}refuses {figures['refused']}"
                continue
            mask, accept = figures["mask_us"], figures["accept_us"]
            equal = f"{figures['masks_equal']:.2%}" if "masks_equal" in figures else ""
            yield (
                f"{start}{name:<10}{mask['p50']:>11,.1f}{mask['p99']:>11,.1f}{mask['max']:>11,.1f}"
                f"{accept['p50']:>10,.1f}{accept['p99']:>10,.1f}{accept['max']:>10,.1f}"
                f"{figures['num_masks']:>7,}{equal:>12}"
            )
        if result["engine"] == OURS:
            copy = result["copy_us"]
            yield f"{'':7}  {'copy of a row':<30}{copy['p50']:>11,.1f}{copy['p99']:>11,.1f}{copy['max']:>11,.1f}"


def _remarks(run: Run) -> Iterator[str]:
    yield "Same definition of text for all (prose, full punctuation); only wordbound holds each word to one spelling in"
    yield "tokens, so its masks are smaller. What each is given and how it is called:"
    notes = {result["engine"]: result["note"] for result in run["results"] if "note" in result}
    yield from (f"  {engine}: {note}" for engine, note in notes.items())


def _goal_lines(run: Run) -> Iterator[str]:
    for goal in run["goals"]:
        measured = "no figure" if goal["measured"] is None else f"{goal['measured']:,.2f}"
        verdict = {True: "met", False: "MISSED", None: "over the limits"}[goal["met"]]
        yield f"{goal['goal']:<48}{measured:>12}  {goal['limit']:>8}  {verdict}"


def _goal(name: str, measured: float, *, at_most: float | None = None, at_least: float | None = None) -> dict[str, Any]:
    if at_most is not None:
        return {"goal": name, "limit": f"<= {at_most:g}", "measured": measured, "met": measured <= at_most}
    return {"goal": name, "limit": f">= {at_least:g}", "measured": measured, "met": measured >= (at_least or 0)}


def _all(results: Iterable[Result], what: str, percentile: str) -> list[float]:
    return [
        figures[what][percentile]
        for result in results
        if result["status"] == "measured"
        for figures in result["sets"].values()
        if what in figures
    ]


def _sizes(run: Run) -> list[int]:
    return sorted({result["n_words"] for result in run["results"]})


def _result(run: Run, engine: str, n_words: int) -> Result | None:
    return next((r for r in run["results"] if r["engine"] == engine and r["n_words"] == n_words), None)


def _thousandth(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def markdown(run: Run, kind: str = "whole") -> str:
    """Median (99th percentile) of each engine's masks, and what it compiled in, as a table for a page."""
    engines = list(dict.fromkeys(result["engine"] for result in run["results"]))
    lines = ["| words | " + " | ".join(engines) + " | copy of a row |", "|---:|" + "---:|" * (len(engines) + 1)]
    for n_words in _sizes(run):
        results = [_result(run, engine, n_words) for engine in engines]
        copies = [result["copy_us"]["p50"] for result in results if result and "copy_us" in result]
        cells = [_cell(result, kind) for result in results] + [f"{min(copies):.1f}" if copies else ""]
        lines.append(f"| {n_words:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(result: Result | None, kind: str) -> str:
    if result is None:
        return ""
    if result["status"] != "measured":
        return str(result.get("message") or result["status"])
    figures = result["sets"][kind]
    if "refused" in figures:
        return f"refuses {figures['refused']}"
    mask = figures["mask_us"]
    digits = 1 if mask["p99"] < 100 else 0
    return f"{mask['p50']:,.{digits}f} ({mask['p99']:,.{digits}f}); {result['compile_s']:,.1f} s"


if __name__ == "__main__":
    record = json.loads(Path(sys.argv[1]).read_text())
    print(tables(record), markdown(record), sep="\n\n")
