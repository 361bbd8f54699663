"""Tests of ``vocab.matching.segmented``."""
