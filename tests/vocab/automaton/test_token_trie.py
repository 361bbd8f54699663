from tests.vocab.arrays.test_byte_trie import spelled
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts


def test_tokens_that_share_a_byte_string_end_at_one_node_and_special_ones_nowhere() -> None:
    facts = TokenizerFacts.from_token_bytes([b"<s>", b"b", b"ab", b"b", b"", b"a"], [0])
    tokens = TokenTrie.of(facts)
    ending = {
        spelled(tokens.trie, node): tokens.tokens[tokens.token_start[node] : tokens.token_start[node + 1]].tolist()
        for node in range(len(tokens.trie.parents))
    }
    assert ending == {b"": [], b"a": [5], b"ab": [2], b"b": [1, 3]}
    assert tokens.num_tokens == 6
