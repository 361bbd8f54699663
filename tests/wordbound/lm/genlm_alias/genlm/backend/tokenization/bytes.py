from wordbound.lm.tokens import get_byte_vocab

ByteVocabError = ValueError
ByteDecoderError = ValueError


def check_byte_decoder(*_: object) -> None:
    """Nothing here takes the alphabet of a tokenizer from elsewhere; the test of it is left out."""


__all__ = ["ByteDecoderError", "ByteVocabError", "check_byte_decoder", "get_byte_vocab"]
