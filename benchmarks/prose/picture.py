"""Draws quality against cost: bits per character over tokens, and over seconds. Knows rows, and what is measured of
them; hollow marks are methods whose texts repeat themselves."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from benchmarks.prose.rows import MOST_REPEATED, Row

_COLOURS: Final = {"free": "#777777", "service": "#0b6e4f", "transformers": "#b02a5d"}

_COSTS: Final[tuple[tuple[str, Callable[[Row], float | None]], ...]] = (
    ("tokens generated for each that came back", lambda row: row.tokens_per_token),
    ("seconds of an answer, alone", lambda row: row.seconds_alone),
)


_LABEL_GAP: Final = 0.019
"""Height of a label by that of the panel."""

_LABEL_WIDTH: Final = 1.9
"""Labels of points whose costs are farther apart than this factor do not meet."""


def plot_quality(rows: Sequence[Row], path: Path) -> None:
    """One point for each method, on two scales of cost, both logarithmic."""
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wordbound", "font.family": "sans-serif"}):
        figure, panels = pyplot.subplots(1, 2, figsize=(13, 8), sharey=True)
        for axes, (label, cost_of) in zip(panels, _COSTS, strict=True):
            points = [
                (cost, row.bits_per_char, row)
                for row in rows
                if (cost := cost_of(row)) is not None and row.bits_per_char is not None
            ]
            for cost, bits, row in points:
                colour = _COLOURS[row.cell.method.kind]
                face = colour if row.repeated_4 <= MOST_REPEATED else "none"
                axes.plot([cost], [bits], "o", markersize=5, markeredgecolor=colour, markerfacecolor=face)
            places = spread([(cost, bits) for cost, bits, _ in points])
            for (cost, _, row), place in zip(points, places, strict=True):
                axes.annotate(
                    row.cell.method.name, (cost, place), xytext=(5, -2), textcoords="offset points", fontsize=6
                )
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_xlabel(label)
            if points:
                costs = [cost for cost, _, _ in points]
                axes.set_xlim(min(costs) / 1.3, max(costs) * 3.5)
            axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        panels[0].set_ylabel("bits per character under the free model")
        cell = rows[0].cell
        figure.suptitle(
            f"{cell.n_words:,} words, {cell.lang!r}, {cell.model}, at most {cell.num_tokens} tokens; "
            f"hollow: more than {MOST_REPEATED:.0%} of 4-grams repeat",
            fontsize=9,
            y=0.94,
        )
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)


def spread(points: Sequence[tuple[float, float]]) -> list[float]:
    """Heights of the points' labels: those of the points, or as far below as it takes for labels not to meet."""
    if not points:
        return []
    heights = [height for _, height in points]
    gap = (max(heights) - min(heights)) * _LABEL_GAP
    placed: dict[int, float] = {}
    for index in sorted(range(len(points)), key=lambda index: -heights[index]):
        cost, place = points[index]
        for other in sorted(placed, key=placed.__getitem__, reverse=True):
            is_near = 1 / _LABEL_WIDTH < points[other][0] / cost < _LABEL_WIDTH
            if is_near and abs(placed[other] - place) < gap:
                place = placed[other] - gap
        placed[index] = place
    return [placed[index] for index in range(len(points))]
