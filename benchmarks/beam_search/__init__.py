"""What ``benchmarks.beams`` is made of: both searches, and what is said of their texts."""
