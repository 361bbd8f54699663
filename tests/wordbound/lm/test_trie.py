"""The weight of every prefix, against a sum over the tokens that begin with it."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordbound.lm import ParallelTokenCharacterTrie, Token, TokenCharacterTrie

TRIES = [TokenCharacterTrie, ParallelTokenCharacterTrie]
TINY = 1e-30


class End:
    """A word that is no token and has itself as its letter, as the end of a sequence in other programs."""

    def __iter__(self) -> Any:
        return iter((self,))


tokens_with_weights = st.lists(
    st.tuples(
        st.binary(max_size=4) | st.sampled_from([b"", b"a", b"ab", b"abc"]),
        st.sampled_from([0.0, TINY, 0.25, 1.0, 3.0]),
    ),
    max_size=30,
)


def tokens_of(words: list[bytes]) -> list[Token]:
    return [Token(i, word) for i, word in enumerate(words)]


def below(trie: TokenCharacterTrie, node: int) -> list[int]:
    """The places in ``decode`` of the tokens below a node, by their bytes."""
    if node < len(trie.decode):
        return [node]
    prefix = bytes(trie.node2prefix[node])
    return [i for i, token in enumerate(trie.decode) if token.startswith(prefix)]


def assert_weights(trie: TokenCharacterTrie, weights: list[float], sums: Any, largest: Any) -> None:
    for node in range(len(trie.children)):
        parts = [weights[i] for i in below(trie, node)]
        assert sums[node] == pytest.approx(sum(parts), rel=1e-12, abs=0)
        if parts:
            assert largest[node] == max(parts)


@pytest.mark.parametrize("kind", TRIES)
@given(drawn=tokens_with_weights)
def test_each_prefix_weighs_what_the_tokens_do_that_begin_with_it(
    kind: type[TokenCharacterTrie], drawn: list[tuple[bytes, float]]
) -> None:
    trie, weights = kind(tokens_of([word for word, _ in drawn])), [weight for _, weight in drawn]
    assert_weights(trie, weights, trie.weight_sum(weights), trie.weight_max(weights))
    rows = [weights, [2 * weight for weight in weights]]
    # By their names in older programs.
    for row, sums, largest in zip(rows, trie.batch_mass_sum(rows), trie.batch_mass_max(rows), strict=True):
        assert_weights(trie, row, sums, largest)


@given(drawn=tokens_with_weights)
def test_children_prefixes_and_leaves_say_the_same_trie(drawn: list[tuple[bytes, float]]) -> None:
    words = [word for word, _ in drawn]
    trie = TokenCharacterTrie(tokens_of(words))
    assert trie.root == len(trie.children) - 1
    assert trie.node2prefix[trie.root] == []
    assert len({tuple(trie.node2prefix[node]) for node in trie.ordering}) == len(trie.ordering)
    for node, children in enumerate(trie.children):
        assert sorted(children.values()) == trie.jump[node].tolist()
        for letter, child in children.items():
            assert child < node
            is_leaf = isinstance(letter, tuple)
            assert trie.node2prefix[child] == trie.node2prefix[node] + ([] if is_leaf else [letter])
            assert is_leaf == (child in trie.leaf2word)
    for i, leaf in trie.idx_to_leaf.tolist():
        assert bytes(trie.node2prefix[leaf]) == words[i]
        assert trie.word2leaf[words[i], i] == leaf
        assert trie.leaf2word[leaf] == (words[i], i)


def test_nodes_are_looked_up_as_in_lists_and_dictionaries() -> None:
    trie = TokenCharacterTrie(tokens_of([b"a", b"ab"]))
    assert trie.children[-1] == trie.children[trie.root] == trie.children[np.int32(trie.root)]
    assert trie.children[-2:] == [trie.children[trie.root - 1], trie.children[trie.root]]
    with pytest.raises(IndexError):
        trie.children[len(trie.children)]
    with pytest.raises(KeyError):
        trie.node2prefix[-1]
    assert len(trie.node2prefix) == len(trie.children)
    assert list(trie.node2prefix) == list(range(len(trie.children)))


def test_words_of_other_letters_stand_beside_tokens() -> None:
    end = End()
    trie = TokenCharacterTrie([Token(0, b"a"), end, (97, "x")])
    root = trie.children[trie.root]
    assert set(root) == {ord("a"), end}
    assert set(trie.children[root[97]]) == {(None, 0), "x"}
    assert trie.node2prefix[trie.word2leaf[end]] == [end]
    assert trie.weight_sum([0.5, 0.25, 0.125])[root[97]] == 0.625


def test_tokens_with_equal_bytes_have_leaves_of_their_own_equal_words_are_refused_and_plain_bytes_deprecated() -> None:
    trie = TokenCharacterTrie([Token(5, b"a"), Token(7, b"a")])
    assert trie.word2leaf == {(b"a", 5): 0, (b"a", 7): 1}
    with pytest.raises(ValueError, match=r"Duplicate word in vocabulary: \(b'a', 5\)"):
        TokenCharacterTrie([Token(5, b"a"), Token(5, b"a")])
    with pytest.warns(DeprecationWarning, match="pass the tokens of decode_vocab"):
        trie = TokenCharacterTrie([b"a", b"b"])
    assert trie.word2leaf == {b"a": 0, b"b": 1}


@pytest.mark.parametrize("kind", TRIES)
def test_weights_that_do_not_fit_are_refused_and_those_of_ids_without_tokens_left_out(kind: Any) -> None:
    trie = kind(tokens_of([b"a", b"b"]))
    with pytest.raises(ValueError, match="a vocabulary of 2 tokens"):
        trie.weight_sum([1.0])
    with pytest.raises(ValueError, match="give one row"):
        trie.weight_max([[1.0, 2.0]])
    assert (trie.mass_sum(p_llm=[1.0, 2.0, 4.0])[trie.root], trie.mass_max([1.0, 2.0])[trie.root]) == (3.0, 2.0)
    assert trie.batch_weight_sum([]).shape == (0, 5)
    with pytest.raises(ValueError, match="'cpu', 'cuda' or None"):
        ParallelTokenCharacterTrie([], device="tpu")


def test_weights_may_be_of_any_dtype_and_views_and_need_a_gradient() -> None:
    trie = TokenCharacterTrie(tokens_of([b"a", b"b"]))
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64):
        assert trie.weight_sum(torch.tensor([2, 3], dtype=dtype))[trie.root] == 5.0
        assert trie.weight_max(torch.tensor([2, 3], dtype=dtype))[trie.root] == 3.0
    batch = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert trie.weight_sum(batch[:, 1])[trie.root] == 6.0
    assert trie.batch_weight_sum(batch)[:, trie.root].tolist() == [3.0, 7.0]


@pytest.mark.parametrize("kind", TRIES)
def test_log_weights_have_a_largest_too(kind: Any) -> None:
    trie = kind(tokens_of([b"a", b"ab", b"c"]))
    largest = trie.weight_max([-3.0, -np.inf, -5.0])
    root = trie.children[trie.root]
    assert [largest[trie.root], largest[root[97]], largest[root[99]]] == [-3.0, -3.0, -5.0]
    assert np.isnan(trie.weight_max([-3.0, np.nan, -5.0])[trie.root])


def test_a_trie_is_drawn_with_its_weights_where_the_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("graphviz")
    trie = TokenCharacterTrie([Token(0, b"a"), End()])
    picture = trie.visualize(trie.weight_sum([0.25, 0.5])).source
    assert "0.2500" in picture
    assert "#00ff00" in picture
    assert "#ff00ff" not in trie.visualize().source
    with pytest.raises(ValueError, match="give each one"):
        trie.visualize([1.0])
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match=r"pip install 'wordbound\[graphviz\]'"):
        TokenCharacterTrie([]).visualize()
