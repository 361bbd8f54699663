"""A trie of a vocabulary: the weight of every prefix that tokens begin with, from the weights of the tokens.

Leaf i is the end of token i, so the weights of the leaves are those of the tokens, as they come; one pass, in which
each node adds its weight to its parent's, is all that it takes. Each sum is made of its own parts: with differences of
running sums, weights of 1e-20 would be lost beside others.
"""

import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from vocab.arrays.interner import Interner
from vocab.arrays.kernels import Int32Array, kernel
from wordbound.lm.tokens import Token

Floats: TypeAlias = npt.NDArray[np.float64]
Weights: TypeAlias = torch.Tensor | npt.ArrayLike
Operation: TypeAlias = Literal["sum", "max"]

_Int64Array: TypeAlias = npt.NDArray[np.int64]
_NUM_BYTES: Final = 256


class TokenCharacterTrie:
    """A trie of tokens by byte, or of other words by letter.

    The first nodes are leaves, one for each word; the others are the prefixes of words, and the empty one, the root, is
    the last node. Every child precedes its parent: of the prefixes the longest come first.

    Args:
        decode: The tokens by id. Beside ``Token`` it may have words of other letters, such as an end of the sequence,
            which are iterated for their letters. Plain bytes are deprecated.

    Attributes:
        decode: The same.
        root: The node of the empty prefix, which is the last one.
        parents: int32 (nodes,), of each node the parent; -1 of the root.

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
        seen = set()
        for word in map(_key, decode):
            if word in seen:
                raise ValueError(
                    f"Duplicate word in vocabulary: {word!r}. Words must differ, and so must ids of tokens."
                )
            seen.add(word)
        numbers, lengths, self._letters = _letters_of(decode)
        parents, labels, ends = _prefixes_of(numbers, lengths, len(self._letters))
        # Numbered from the empty prefix on, they are turned round.
        self.root = len(decode) + len(parents) - 1
        self.parents = (self.root - np.concatenate([ends, parents[::-1]])).astype(np.int32)
        self.parents[self.root] = -1
        self._labels = labels[::-1]

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

    # Their names in older programs, whose rows are probabilities.

    def mass_sum(self, p_llm: Weights) -> Floats:
        """As ``weight_sum``."""
        return self.weight_sum(p_llm)

    def batch_mass_sum(self, p_llms: Iterable[Weights]) -> Floats:
        """As ``batch_weight_sum``."""
        return self.batch_weight_sum(p_llms)

    mass_max, batch_mass_max = weight_max, batch_weight_max

    def row_of(self, ws: Weights) -> Any:
        """Convert the weights of the tokens to an array that is computed with, else raise ``ValueError``."""
        if isinstance(ws, torch.Tensor):
            # numpy knows no bfloat16.
            ws = ws.detach().to("cpu", torch.float64 if ws.dtype == torch.float64 else torch.float32).numpy()
        row = np.asarray(ws)
        if row.ndim != 1 or len(row) < len(self.decode):
            raise ValueError(
                f"weights of shape {row.shape} for a vocabulary of {len(self.decode)} tokens: "
                "give one row with a weight for each token"
            )
        is_float = row.dtype in (np.float32, np.float64)
        return np.ascontiguousarray(row[: len(self.decode)], None if is_float else np.float64)

    def node_weights(self, rows: list[Any], operation: Operation) -> Floats:
        """Return the sums or the largest weights of rows from ``row_of``, float64 (rows, nodes)."""
        weights = np.empty((len(rows), len(self.parents)))
        for row, weights_of_row in zip(rows, weights, strict=True):
            _UPWARDS[operation](row, self.parents, weights_of_row)
        return weights

    # The trie as dictionaries and lists.

    @cached_property
    def children(self) -> list[dict[Any, int]]:
        """By node, its children: by letter, and leaves, after them, by ``(None, place in decode)``."""
        children: list[dict[Any, int]] = [{} for _ in self.parents]
        # Children are numbered from the last letter to the first.
        for node, parent in self._downwards():
            is_leaf = node < len(self.decode)
            children[parent][(None, node) if is_leaf else self._last_letter(node)] = node
        return children

    @cached_property
    def jump(self) -> list[Int32Array]:
        """By node, its children in ascending order, int32."""
        return [np.array(sorted(children.values()), np.int32) for children in self.children]

    @cached_property
    def node2prefix(self) -> dict[int, list[Any]]:
        """By node, the letters that lead to it."""
        prefixes: list[list[Any]] = [[]] * len(self.parents)
        for node, parent in self._downwards():
            is_leaf = node < len(self.decode)
            prefixes[node] = prefixes[parent] if is_leaf else [*prefixes[parent], self._last_letter(node)]
        return dict(enumerate(prefixes))

    @property
    def ordering(self) -> Int32Array:
        """The nodes of prefixes, int32, children before parents."""
        return np.arange(len(self.decode), len(self.parents), dtype=np.int32)

    @property
    def idx_to_leaf(self) -> Int32Array:
        """int32 (tokens, 2): each place in ``decode``, and its leaf."""
        leaves = np.arange(len(self.decode), dtype=np.int32)
        return np.column_stack([leaves, leaves])

    @cached_property
    def word2leaf(self) -> dict[Hashable, int]:
        """The leaf of ``(bytes, token id)``, or of a word that is no token."""
        return {_key(word): leaf for leaf, word in enumerate(self.decode)}

    @cached_property
    def leaf2word(self) -> dict[int, Hashable]:
        """The word of each leaf, by its node: ``word2leaf`` the other way round."""
        return {leaf: word for word, leaf in self.word2leaf.items()}

    def _downwards(self) -> Iterator[tuple[int, int]]:
        return zip(range(self.root - 1, -1, -1), self.parents[-2::-1].tolist(), strict=True)

    def _last_letter(self, node: int) -> Any:
        return self._letters[self._labels[node - len(self.decode)]]

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
        weights = None if ws is None else np.asarray(ws, dtype=np.float64)
        if weights is not None and weights.shape != self.parents.shape:
            raise ValueError(f"there are weights of shape {weights.shape} for {len(self.parents)} nodes: give each one")
        try:
            import graphviz
        except ImportError as error:
            raise ImportError("drawing a trie needs the package graphviz: pip install 'wordbound[graphviz]'") from error

        picture = graphviz.Digraph(
            comment="Trie of tokens", graph_attr={"rankdir": "LR"}, node_attr={"style": "filled", "fillcolor": "white"}
        )
        for node, prefix in self.node2prefix.items():
            lines = [str(node), str(bytes(prefix) if all(isinstance(letter, int) for letter in prefix) else prefix)]
            options = {"shape": "doublecircle" if node < len(self.decode) else "circle"}
            if weights is not None:
                lines.append(f"{weights[node]:.4f}")
                options["fillcolor"] = _green(weights[node], weights.max())
            # The backslashes of bytes are no line breaks here.
            picture.node(str(node), graphviz.escape("\n".join(lines)), **options)
            for letter, child in self.children[node].items():
                label = f"end of word {letter[1]}" if child < len(self.decode) else str(letter)
                picture.edge(str(node), str(child), label=label)
        return picture


class ParallelTokenCharacterTrie(TokenCharacterTrie):
    """A ``TokenCharacterTrie`` that computes the rows of a batch on as many threads as torch has.

    Args:
        decode: As there.
        device: ``cuda``, ``cpu`` or None, as in genlm-backend. Rows may be on either; the weights of nodes are numpy's,
            and copying them from a GPU would take as long as computing them here does.

    Raises:
        ValueError: The device is another, or two words are equal.
    """

    def __init__(self, decode: Sequence[Any], device: str | None = None) -> None:
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"unknown device {device!r}: it must be 'cpu', 'cuda' or None")
        super().__init__(decode)

    @override
    def node_weights(self, rows: list[Any], operation: Operation) -> Floats:
        weights = np.empty((len(rows), len(self.parents)))
        # The passes run without the interpreter lock.
        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            list(threads.map(_UPWARDS[operation], rows, [self.parents] * len(rows), weights))
        return weights


def _key(word: Any) -> Hashable:
    return (word.byte_string, word.token_id) if isinstance(word, Token) else word


def _green(weight: float, largest: float) -> str:
    share = min(max(weight / largest, 0), 1) if largest > 0 else 0
    rest = round(255 * (1 - share))
    return f"#{rest:02x}ff{rest:02x}"


def _letters_of(words: Sequence[Any]) -> tuple[_Int64Array, _Int64Array, list[Any]]:
    """Return the letters of all words by number (a byte is its own), the length of each word, and all letters."""
    numbers: Interner[Any] = Interner(range(_NUM_BYTES))
    spelled = [word if isinstance(word, bytes) else [numbers[letter] for letter in word] for word in words]
    lengths = np.fromiter(map(len, spelled), np.int64, len(spelled))
    return np.fromiter(chain.from_iterable(spelled), np.int64, lengths.sum()), lengths, numbers.in_order


def _prefixes_of(
    letters: _Int64Array, lengths: _Int64Array, num_letters: int
) -> tuple[_Int64Array, _Int64Array, _Int64Array]:
    """Number the prefixes of words by length, then by parent and last letter; the empty one is 0.

    Returns each prefix's parent (-1 of the empty one) and last letter, and for each word the prefix that it is.
    """
    starts = np.cumsum(lengths) - lengths
    nodes = np.zeros(len(lengths), np.int64)
    parents, labels, num_prefixes, length = [np.array([-1])], [np.array([0])], 1, 0
    longer = np.flatnonzero(lengths > 0)
    while len(longer):
        # By its letters so far each word stands at a prefix; equal pairs of that and the next letter are one.
        steps = nodes[longer] * num_letters + letters[starts[longer] + length]
        found, places = np.unique(steps, return_inverse=True)
        nodes[longer] = num_prefixes + places
        parents.append(found // num_letters)
        labels.append(found % num_letters)
        num_prefixes, length = num_prefixes + len(found), length + 1
        longer = longer[lengths[longer] > length]
    return np.concatenate(parents), np.concatenate(labels), nodes


@kernel
def _sum_upwards(weights: npt.NDArray[Any], parents: Int32Array, node_weights: Floats) -> None:
    """Write the sum of the leaves' weights below each node; the first nodes are leaves, with the weights given."""
    node_weights[: len(weights)] = weights
    node_weights[len(weights) :] = 0.0
    for node in range(len(parents) - 1):
        node_weights[parents[node]] += node_weights[node]


@kernel
def _max_upwards(weights: npt.NDArray[Any], parents: Int32Array, node_weights: Floats) -> None:
    """Write the largest weight of the leaves below each node, NaN if one is; see ``_sum_upwards``."""
    node_weights[: len(weights)] = weights
    node_weights[len(weights) :] = -np.inf
    for node in range(len(parents) - 1):
        weight = node_weights[node]
        # NaN differs from itself, and is larger than nothing.
        if weight > node_weights[parents[node]] or weight != weight:
            node_weights[parents[node]] = weight


_UPWARDS: Final = {"sum": _sum_upwards, "max": _max_upwards}
