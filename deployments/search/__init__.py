"""Searches over an engine: beams, candidates and sentences, made of many small requests to vLLM's client."""
