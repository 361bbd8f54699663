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


def plot_quality(rows: Sequence[Row], path: Path) -> None:
    """One point for each method, on two scales of cost, both logarithmic."""
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wordbound", "font.family": "sans-serif"}):
        figure, panels = pyplot.subplots(1, 2, figsize=(11, 5.2), sharey=True)
        for axes, (label, cost_of) in zip(panels, _COSTS, strict=True):
            for row in rows:
                cost = cost_of(row)
                if cost is not None and row.bits_per_char is not None:
                    colour = _COLOURS[row.cell.method.kind]
                    face = colour if row.repeated_4 <= MOST_REPEATED else "none"
                    axes.plot([cost], [row.bits_per_char], "o", markeredgecolor=colour, markerfacecolor=face)
                    axes.annotate(
                        row.cell.method.name, (cost, row.bits_per_char), xytext=(5, 2), textcoords="offset points",
                        fontsize=6,
                    )  # fmt: skip
            axes.set(xscale="log", xlabel=label)
            axes.margins(x=0.25)
            axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        panels[0].set_ylabel("bits per character under the free model")
        cell = rows[0].cell
        figure.suptitle(
            f"{cell.n_words:,} words, {cell.lang!r}, {cell.model}, at most {cell.num_tokens} tokens; "
            f"hollow: more than {MOST_REPEATED:.0%} of 4-grams repeat",
            fontsize=9,
        )
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
