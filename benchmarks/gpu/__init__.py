"""What the constraint costs on a CUDA machine, recorded by one command: ``python -m benchmarks.gpu --model PATH``.

Five parts, each of which is left out, with its reason in the record, where it cannot be measured: texts that are equal
on the device and on the CPU, sequences, beams, masks, and beams with the engine's work kept from step to step. It runs
on a CPU too, which is how it is tested.
"""
