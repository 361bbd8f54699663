"""Draws mask time against list size, from the record of a run: `python -m benchmarks.plot RUN.json FILE.svg`."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

_STYLES: Final = {
    "wordbound": ("#0b6e4f", "o"),
    "llguidance": ("#c05c00", "s"),
    "xgrammar-ebnf": ("#2a5db0", "^"),
    "xgrammar-regex": ("#6f9bdc", "v"),
    "outlines-core": ("#8a3ffc", "D"),
    "lm-format-enforcer": ("#b02a5d", "P"),
}
_SET: Final = "whole"
"""The texts whose figures are drawn."""


def plot_masks(run: dict[str, Any], path: Path) -> None:
    """Median and 99th percentile of each engine that was measured, both axes logarithmic."""
    # Text as text, without the shapes of its letters, and no date: small, and the same for the same figures.
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wordbound", "font.family": "sans-serif"}):
        figure, axes = pyplot.subplots(figsize=(7.2, 4.4))
        for engine, (colour, marker) in _STYLES.items():
            points = sorted(
                (result["n_words"], *(result["sets"][_SET]["mask_us"][p] for p in ("p50", "p99")))
                for result in run["results"]
                if result["engine"] == engine and result["status"] == "measured" and "mask_us" in result["sets"][_SET]
            )
            if points:
                sizes, p50, p99 = zip(*points, strict=True)
                axes.plot(sizes, p50, color=colour, marker=marker, label=engine)
                axes.plot(sizes, p99, color=colour, linestyle=":", linewidth=1)
        copies = [result["copy_us"]["p50"] for result in run["results"] if "copy_us" in result]
        axes.axhline(min(copies), color="#777777", linewidth=1, linestyle="--", label="copy of a row")
        axes.set(xscale="log", yscale="log", xlabel="words of the list", ylabel="microseconds per mask")
        axes.set_title(
            f"{run['lang']}, {run['tokenizer']['num_tokens']:,} tokens, one thread; "
            f"median, and 99th percentile dotted; {run['date'][:10]}",
            fontsize=9,
        )
        axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)


if __name__ == "__main__":
    plot_masks(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
