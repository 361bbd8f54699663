"""What the constraint costs on a CUDA machine, recorded by one command: ``python -m benchmarks.gpu --model PATH``.

Four parts, each of which is left out, with its reason in the record, where it cannot be measured: masks, sequences,
beams, and beams with the engine's work kept from step to step. It runs on a CPU too, which is how it is tested.
"""
