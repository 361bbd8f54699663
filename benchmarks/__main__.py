"""`make bench` and `make bench-masks`: the benchmarks behind the figures of docs/how-it-works.md, on the demo model."""

import runpy
import sys

from deployments.demo.model import smollm2_path

NAMES = {
    "throughput": "--model",
    "beams": "--model",
    "masks": "--tokenizer",
    "compile": "--tokenizer",
    "controls": "--tokenizer",
    "quality": "--model",
    "adapters": "--model",
    "batch": "--model",
    "lm_rows": "--model",
    "failover": "--model",
    "fairness": "--model",
    "kills": "--model",
    "lane": "--model",
    "particles": "--model",
    "soak": "--model",
    "upgrade": "--model",
}
"""Each benchmark that needs the model, and its option for it."""

WITHOUT_MODEL = ("segmentation", "traps")

is_named = sys.argv[1:2] and sys.argv[1] in (*NAMES, *WITHOUT_MODEL)
name, *arguments = sys.argv[1:] if is_named else ["throughput", *sys.argv[1:]]
model = () if name in WITHOUT_MODEL else (NAMES[name], str(smollm2_path()))
sys.argv = [f"benchmarks.{name}", *model, *arguments]
runpy.run_module(f"benchmarks.{name}", run_name="__main__")
