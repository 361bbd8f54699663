from wordbound.lm import Token, decode_vocab

__all__ = ["Token", "decode_vocab"]
