from wordbound.lm import AsyncTokenCharacterTrie, ParallelTokenCharacterTrie, TokenCharacterTrie

__all__ = ["AsyncTokenCharacterTrie", "ParallelTokenCharacterTrie", "TokenCharacterTrie"]
