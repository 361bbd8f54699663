"""A trie of a vocabulary: the weight of every prefix that tokens begin with, from the weights of the tokens.

Leaf i is the end of token i, so the weights of the leaves are those of the tokens, as they come; one pass, in which
each node adds its weight to its parent's, is all that it takes. Each sum is made of its own parts: with differences of
running sums, weights of 1e-20 would be lost beside others.
"""

import operator
import warnings
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from vocab.arrays.kernels import Int32Array
from wordbound.lm.tokens import Token
from wordbound.lm.tries.arrays import (
    Floats,
    TrieArrays,
    max_upwards,
    refuse_duplicates,
    sum_upwards,
    word_key,
)

_T = TypeVar("_T")

_MOST_OF_A_COLOUR: Final = 255


class _ByNode(Sequence[_T]):
    """A list, computed on access, of what a trie has for each node."""

    def __init__(self, trie: TrieArrays) -> None:
        self._trie = trie

    @abstractmethod
    def _of(self, node: int) -> _T: ...

    def __len__(self) -> int:
        return len(self._trie)

    @overload
    def __getitem__(self, index: SupportsIndex) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> _T | list[_T]:
        nodes = range(len(self))[index]
        return [self._of(node) for node in nodes] if isinstance(nodes, range) else self._of(nodes)


class Jumps(_ByNode[Int32Array]):
    """By node, its children in ascending order, int32."""

    @override
    def _of(self, node: int) -> Int32Array:
        return self._trie.children(node)


class Children(_ByNode[dict[Any, int]]):
    """By node, its children: by letter, and leaves, after them, by ``(None, place in decode)``."""

    @override
    def _of(self, node: int) -> dict[Any, int]:
        trie = self._trie
        # Children are numbered from the last letter to the first.
        children = trie.children(node)[::-1].tolist()
        return {(None, child) if child < trie.num_leaves else trie.last_letter(child): child for child in children}


class Prefixes(Mapping[int, list[Any]]):
    """By node, the letters that lead to it."""

    def __init__(self, trie: TrieArrays) -> None:
        self._trie = trie

    def __len__(self) -> int:
        return len(self._trie)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __getitem__(self, node: int) -> list[Any]:
        at = operator.index(node)
        if not 0 <= at < len(self):
            raise KeyError(node)
        if at < self._trie.num_leaves:
            at = int(self._trie.parents[at])
        letters = []
        while at != self._trie.root:
            letters.append(self._trie.last_letter(at))
            at = int(self._trie.parents[at])
        return letters[::-1]


def drawn(trie: TrieArrays, weights: npt.NDArray[np.float64] | None) -> Any:
    """Draw a trie as a ``graphviz.Digraph``; see ``TokenCharacterTrie.visualize``."""
    if weights is not None and weights.shape != (len(trie),):
        raise ValueError(f"there are weights of shape {weights.shape} for {len(trie)} nodes: give each one")
    try:
        import graphviz
    except ImportError as error:
        raise ImportError("drawing a trie needs the package graphviz: pip install 'wordbound[graphviz]'") from error

    picture = graphviz.Digraph(comment="Trie of tokens", graph_attr={"rankdir": "LR"}, node_attr={"style": "filled"})
    for node, prefix in Prefixes(trie).items():
        lines = [str(node), str(bytes(prefix) if all(isinstance(letter, int) for letter in prefix) else prefix)]
        colour = f"#{_MOST_OF_A_COLOUR:02x}{_MOST_OF_A_COLOUR:02x}{_MOST_OF_A_COLOUR:02x}"
        if weights is not None:
            lines.append(f"{weights[node]:.4f}")
            colour = _green(weights[node], weights.max())
        shape = "doublecircle" if node < trie.num_leaves else "circle"
        # The backslashes of bytes are no line breaks here.
        picture.node(str(node), graphviz.escape("\n".join(lines)), shape=shape, fillcolor=colour)
    for node, children in enumerate(Children(trie)):
        for letter, child in children.items():
            is_end = isinstance(letter, tuple) and letter[0] is None
            picture.edge(str(node), str(child), label=f"end of word {letter[1]}" if is_end else str(letter))
    return picture


def _green(weight: float, largest: float) -> str:
    """Return the colour of a node by its weight: white for 0, green for the largest weight."""
    share = min(max(weight / largest, 0), 1) if largest > 0 else 0
    rest = round(_MOST_OF_A_COLOUR * (1 - share))
    return f"#{rest:02x}{_MOST_OF_A_COLOUR:02x}{rest:02x}"


Weights: TypeAlias = torch.Tensor | npt.ArrayLike
Operation: TypeAlias = Literal["sum", "max"]

_UPWARDS: Final = {"sum": sum_upwards, "max": max_upwards}


class TokenCharacterTrie:
    """A trie of tokens by byte, or of other words by letter.

    Args:
        decode: The tokens by id. Beside ``Token`` it may have words of other letters, such as an end of the sequence,
            which are iterated for their letters. Plain bytes are deprecated.

    Attributes:
        decode: The same.
        root: The node of the empty prefix, which is the last one.
        arrays: The trie.

    Raises:
        ValueError: Two words are equal; tokens with the same bytes but different ids are not.
    """

    def __init__(self, decode: Sequence[Any]) -> None:
        if any(map(Token.is_plain_bytes, decode)):
            warnings.warn(
                "Passing plain bytes to TokenCharacterTrie is deprecated: pass the tokens of decode_vocab(), "
                "which keep apart those with the same bytes.",
                DeprecationWarning,
                stacklevel=2,
            )
        self.decode = decode
        refuse_duplicates(decode)
        self.arrays = TrieArrays.of(decode)
        self.root = self.arrays.root

    # Weights.

    def weight_sum(self, ws: Weights) -> Floats:
        """Return the sum of the weights of the tokens below each node.

        Args:
            ws: (tokens,), the weight of each token of ``decode``. What follows, as the ids do with which a model's
                vocabulary is filled up, has no token and is left out.

        Returns:
            float64 (nodes,).

        Raises:
            ValueError: There are fewer weights than tokens, or they have several dimensions.
        """
        return self.batch_weight_sum([ws])[0]  # type: ignore[no-any-return]

    def weight_max(self, ws: Weights) -> Floats:
        """Return the largest weight of the tokens below each node; see ``weight_sum``."""
        return self.batch_weight_max([ws])[0]  # type: ignore[no-any-return]

    def batch_weight_sum(self, ws: Iterable[Weights]) -> Floats:
        """Return the sums of each row of weights, float64 (rows, nodes); see ``weight_sum``."""
        return self.node_weights([self.row_of(row) for row in ws], "sum")

    def batch_weight_max(self, ws: Iterable[Weights]) -> Floats:
        """Return the largest weights of each row, float64 (rows, nodes); see ``weight_sum``."""
        return self.node_weights([self.row_of(row) for row in ws], "max")

    # Their names in older programs.

    def mass_sum(self, ws: Weights) -> Floats:
        """Return ``weight_sum``, whose older name this is."""
        return self.weight_sum(ws)

    def mass_max(self, ws: Weights) -> Floats:
        """Return ``weight_max``, whose older name this is."""
        return self.weight_max(ws)

    def batch_mass_sum(self, ws: Iterable[Weights]) -> Floats:
        """Return ``batch_weight_sum``, whose older name this is."""
        return self.batch_weight_sum(ws)

    def batch_mass_max(self, ws: Iterable[Weights]) -> Floats:
        """Return ``batch_weight_max``, whose older name this is."""
        return self.batch_weight_max(ws)

    def row_of(self, ws: Weights) -> Any:
        """Convert the weights of the tokens to an array that this trie computes with, else raise ``ValueError``."""
        if isinstance(ws, torch.Tensor):
            # numpy knows no bfloat16.
            ws = ws.detach().to("cpu", torch.float64 if ws.dtype == torch.float64 else torch.float32).numpy()
        row = self._cut(np.asarray(ws))
        return np.ascontiguousarray(row, None if row.dtype in (np.float32, np.float64) else np.float64)

    def _cut(self, row: Any) -> Any:
        """Check the shape of a row of weights, and truncate it to one weight for each token."""
        if row.ndim != 1 or len(row) < len(self.decode):
            raise ValueError(
                f"weights of shape {tuple(row.shape)} for a vocabulary of {len(self.decode)} tokens: "
                "give one row with a weight for each token"
            )
        return row[: len(self.decode)]

    def node_weights(self, rows: list[Any], operation: Operation) -> Floats:
        """Return the sums or the largest weights of rows from ``row_of``, float64 (rows, nodes)."""
        weights = np.empty((len(rows), len(self.arrays)))
        for row, weights_of_row in zip(rows, weights, strict=True):
            _UPWARDS[operation](row, self.arrays.parents, weights_of_row)
        return weights

    # The trie as dictionaries and lists.

    @property
    def children(self) -> Children:
        """By node, its children: those of prefixes by letter, and leaves by ``(None, place in decode)``."""
        return Children(self.arrays)

    @property
    def jump(self) -> Jumps:
        """By node, its children in ascending order, int32."""
        return Jumps(self.arrays)

    @property
    def node2prefix(self) -> Prefixes:
        """By node, the letters that lead to it."""
        return Prefixes(self.arrays)

    @property
    def ordering(self) -> Int32Array:
        """The nodes of prefixes, int32, children before parents."""
        return np.arange(len(self.decode), len(self.arrays), dtype=np.int32)

    @property
    def idx_to_leaf(self) -> Int32Array:
        """int32 (tokens, 2): each place in ``decode``, and its leaf."""
        leaves = np.arange(len(self.decode), dtype=np.int32)
        return np.column_stack([leaves, leaves])

    @cached_property
    def word2leaf(self) -> dict[Hashable, int]:
        """The leaf of ``(bytes, token id)``, or of a word that is no token."""
        return {word_key(word): leaf for leaf, word in enumerate(self.decode)}

    @cached_property
    def leaf2word(self) -> dict[int, Hashable]:
        """The word of each leaf, by its node: ``word2leaf`` the other way round."""
        return {leaf: word for word, leaf in self.word2leaf.items()}

    def visualize(self, ws: Weights | None = None) -> Any:
        """Draw the trie.

        Args:
            ws: (nodes,), a weight to write at each node and to colour it by.

        Returns:
            A ``graphviz.Digraph``.

        Raises:
            ImportError: The package ``graphviz`` is missing.
            ValueError: There is not one weight for each node.
        """
        return drawn(self.arrays, None if ws is None else np.asarray(ws, dtype=np.float64))


class ParallelTokenCharacterTrie(TokenCharacterTrie):
    """A ``TokenCharacterTrie`` for many rows at once: on a GPU, or on as many threads as torch has.

    Args:
        decode: As there.
        device: ``cuda`` or ``cpu``; without it, ``cuda`` where there is one.

    Raises:
        ValueError: The device is another, or two words are equal.
    """

    def __init__(self, decode: Sequence[Any], device: str | None = None) -> None:
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"unknown device {device!r}: it must be 'cpu', 'cuda' or None")
        super().__init__(decode)

    @override
    def row_of(self, ws: Weights) -> Any:
        if self.device == "cpu":
            return super().row_of(ws)
        return self._cut(torch.as_tensor(ws, device=self.device)).detach().to(torch.float64)

    @override
    def node_weights(self, rows: list[Any], operation: Operation) -> Floats:
        if self.device != "cpu":
            return self.by_level(rows, operation).cpu().numpy()  # type: ignore[no-any-return]
        num_threads = min(torch.get_num_threads(), len(rows))
        if num_threads < 2:
            return super().node_weights(rows, operation)
        weights = np.empty((len(rows), len(self.arrays)))
        # The passes run without the interpreter lock.
        with ThreadPoolExecutor(num_threads) as threads:
            done = threads.map(_UPWARDS[operation], rows, [self.arrays.parents] * len(rows), weights)
        list(done)
        return weights

    def by_level(self, rows: list[torch.Tensor], operation: Operation) -> torch.Tensor:
        """Compute the weights of all nodes, float64 (rows, nodes), one length of prefixes at a time."""
        num_leaves, num_nodes = len(self.decode), len(self.arrays)
        parents = self._parents.expand(len(rows), -1)
        nothing, reduce = (0.0, "sum") if operation == "sum" else (-torch.inf, "amax")
        weights = torch.full((len(rows), num_nodes), nothing, dtype=torch.float64, device=self.device)
        if rows:
            weights[:, :num_leaves] = torch.stack(rows)
        # The ends of the levels by node: the leaves', then from the longest prefixes' to the root's.
        ends = [num_leaves, *(num_nodes - num for num in reversed(self.arrays.num_prefixes[:-1])), num_nodes]
        # Those that leaves belong to are of any length.
        above = [(num_leaves, num_nodes), *pairwise(ends[1:])]
        for first, last, (first_above, last_above) in zip([0, *ends], ends, above, strict=False):
            places = parents[:, first:last] - first_above
            weights[:, first_above:last_above].scatter_reduce_(1, places, weights[:, first:last], reduce)
        return weights

    @cached_property
    def _parents(self) -> torch.Tensor:
        return torch.as_tensor(self.arrays.parents, dtype=torch.int64, device=self.device)
