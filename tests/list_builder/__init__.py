"""Tests of ``list_builder``."""
