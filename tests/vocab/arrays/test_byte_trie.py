from hypothesis import given
from hypothesis import strategies as st

from vocab.arrays.byte_trie import ByteStrings, ByteTrie


def spelled(trie: ByteTrie, node: int) -> bytes:
    labels = []
    while node > 0:
        labels.append(int(trie.labels[node]))
        node = int(trie.parents[node])
    return bytes(reversed(labels))


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=30))
def test_every_string_ends_at_the_node_that_spells_it(strings: list[bytes]) -> None:
    trie = ByteTrie.of(ByteStrings.of(strings))
    assert [spelled(trie, int(node)) for node in trie.string_nodes] == strings
    assert len(trie.parents) == 1 + len({string[:end] for string in strings for end in range(1, len(string) + 1)})


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=30))
def test_children_are_ordered_by_byte(strings: list[bytes]) -> None:
    trie = ByteTrie.of(ByteStrings.of(strings))
    for node in range(len(trie.parents)):
        children = trie.children[trie.child_start[node] : trie.child_start[node + 1]]
        assert all(trie.parents[child] == node for child in children)
        assert list(trie.labels[children]) == sorted(set(trie.labels[children].tolist()))
