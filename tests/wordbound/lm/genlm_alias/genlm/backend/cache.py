from wordbound.lm.cache import OutputCache, TokenTrie

__all__ = ["OutputCache", "TokenTrie"]
