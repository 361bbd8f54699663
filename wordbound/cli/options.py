"""The options by which commands name a word list, of the service or of this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from vocab.options import Segmentation

LangOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TAG", help="The list of a language; with --list its rules of spelling.")
]
WordsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="How many of its words, the most frequent first; all, if not given."),
]
LevelOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A named level instead of --words: top-1000, A2 (wordbound levels)."),
]
ListOption: TypeAlias = Annotated[
    Path | None, typer.Option("--list", metavar="FILE", help="A list of your own, one word a line.")
]
ExtraWordsOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Words allowed besides, one a line.")
]
ExcludeWordsOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Words left out, in every form.")
]
SegmentationOption: TypeAlias = Annotated[
    Segmentation | None,
    typer.Option(help="Without spaces: each word the longest of the dictionary, or any way into listed words."),
]


@dataclass(frozen=True)
class BaseListOptions:
    """What names a list on the command line: language, size, level or list file, words added or left out."""

    lang: LangOption = None
    words: WordsOption = None
    level: LevelOption = None
    list_file: ListOption = None
    extra_words: ExtraWordsOption = None
    exclude_words: ExcludeWordsOption = None
    segmentation: SegmentationOption = None
