"""The parts of ``benchmarks/quality.py``: how texts are made, measured, and shown."""
