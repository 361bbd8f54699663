"""Tests of ``tools``."""
