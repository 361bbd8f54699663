from hypothesis import given
from hypothesis import strategies as st

from vocab.automaton.token_trie import ByteTrie


@given(st.lists(st.binary(min_size=1, max_size=6), max_size=30))
def test_every_string_ends_at_the_node_that_spells_it(strings: list[bytes]) -> None:
    trie, spelled = ByteTrie.of(strings), {0: b""}
    for node in range(len(trie.labels)):
        children = trie.children[trie.child_start[node] : trie.child_start[node + 1]].tolist()
        assert [trie.labels[child] for child in children] == sorted({int(trie.labels[child]) for child in children})
        spelled |= {child: spelled[node] + bytes([trie.labels[child]]) for child in children}
    assert [spelled[node] for node in trie.string_nodes.tolist()] == strings
    assert len(spelled) == 1 + len({string[:end] for string in strings for end in range(1, len(string) + 1)})
