from wordbound.lm import AsyncTransformer, MockAsyncLM, load_model_by_name

__all__ = ["AsyncTransformer", "MockAsyncLM", "load_model_by_name"]
