"""`make bench` and `make bench-masks`: the benchmarks behind the figures of docs/how-it-works.md, on the demo model."""

import runpy
import sys

from deployments.demo.model import smollm2_path

NAMES = {
    "throughput": "--model",
    "beams": "--model",
    "masks": "--tokenizer",
    "compile": "--tokenizer",
    "quality": "--model",
    "adapters": "--model",
    "batch": "--model",
    "lm_rows": "--model",
    "fairness": "--model",
    "kills": "--model",
    "lane": "--model",
    "particles": "--model",
}
"""Each benchmark, and its option for the model."""

name, *arguments = sys.argv[1:] if sys.argv[1:2] and sys.argv[1] in NAMES else ["throughput", *sys.argv[1:]]
sys.argv = [f"benchmarks.{name}", NAMES[name], str(smollm2_path()), *arguments]
runpy.run_module(f"benchmarks.{name}", run_name="__main__")
