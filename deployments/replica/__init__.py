"""The replica deployment: vLLM's engine, prompts, and the turn of each request at it."""
