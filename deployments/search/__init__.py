"""Searches over an engine: beams, candidates and sentences, each made of many small requests to vLLM's client."""
