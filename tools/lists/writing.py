"""Write a list into its data file, in the form that ``vocab.lists.cleaned`` reads."""

import lzma
from collections.abc import Container, Iterable

from vocab.lists.cleaned import FOLDER, UNSAFE


def write_list(language: str, lines: Iterable[str], unsafe: Container[str]) -> tuple[int, int, int]:
    """Write a list: a rank a line, words that share one with tabs between them, and those of ``unsafe`` marked.

    Returns:
        How many words are safe, how many are not, and the size of the file in bytes.
    """
    words = [[UNSAFE + word if word in unsafe else word for word in line.split("\t")] for line in lines]
    text = "".join("\t".join(forms) + "\n" for forms in words)
    data = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    (FOLDER / f"{language}.xz").write_bytes(data)
    num_unsafe = sum(word.startswith(UNSAFE) for forms in words for word in forms)
    return sum(map(len, words)) - num_unsafe, num_unsafe, len(data)
