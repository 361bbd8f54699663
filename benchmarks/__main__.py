"""`make bench`: the benchmarks behind the README's figures, on the demo model."""

import runpy
import sys

from deployments.demo_model import smollm2_path

sys.argv = ["benchmarks.throughput", "--model", str(smollm2_path()), *sys.argv[1:]]
runpy.run_module("benchmarks.throughput", run_name="__main__")
