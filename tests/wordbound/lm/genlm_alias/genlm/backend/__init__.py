from wordbound.lm import decode_vocab, load_model_by_name

__all__ = ["decode_vocab", "load_model_by_name"]
