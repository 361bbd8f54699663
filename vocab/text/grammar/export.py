"""Write the grammar of a list for engines that are not ours: the command ``wordbound grammar``.

The dialect ``ebnf`` is for xgrammar and llama.cpp (GBNF; build 11549 agrees with our definition on all texts of the
tests). ``lark`` is for llguidance, whose own conversion of GBNF reads word by word and greedily, and so refuses allowed
texts: "3.", or "in the" where "in front of" is listed. `docs/other-engines.md` shows each.
"""

import re
from typing import Final, Literal

from vocab.lists.attribution import attribution
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.grammar.ebnf import write_ebnf

Dialect = Literal["ebnf", "lark"]

_QUOTED: Final = re.compile(r'("(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\])')
"""A string or a class of characters; splitting by it leaves names and operators between them."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_COMMENT: Final = {"ebnf": "# ", "lark": "// "}
_TEXT: Final = "TEXT"
"""Stands for the EBNF's ``root``."""


def write_grammar(
    word_list: WordList, options: ListOptions, n_words: int, changes: ListChanges, dialect: Dialect
) -> str:
    """Return the grammar of all texts that the first ``n_words`` words of a list allow.

    Raises:
        VocabularyError: The list, the options or the changes allow no such texts; the message says what to change.
    """
    changes.check(word_list.language)
    ebnf = write_ebnf(word_list, options, n_words, changes)
    credit = attribution(word_list.source, is_by_lemma=word_list.ranks is not None)
    header = "".join(f"{_COMMENT[dialect]}{line}\n" for line in credit)
    return header + (ebnf_to_lark(ebnf) if dialect == "lark" else ebnf)


def ebnf_to_lark(ebnf: str) -> str:
    """Rewrite a grammar of ``write_ebnf`` in Lark's syntax."""
    rules = (line.split(" ::= ", 1) for line in ebnf.removesuffix("\n").split("\n"))
    return f"start: {_TEXT}\n" + "".join(f"{_terminal(name)}: {_body(body)}\n" for name, body in rules)


def _terminal(name: str) -> str:
    return _TEXT if name == "root" else name.upper().replace("-", "_")


def _body(body: str) -> str:
    parts = _QUOTED.split(body)
    parts[::2] = [_NAME.sub(lambda name: _terminal(name[0]), part) for part in parts[::2]]
    parts[1::2] = [part if part[0] == '"' else _regex(part) for part in parts[1::2]]
    return "".join(parts)


def _regex(characters: str) -> str:
    # In a regular expression a bracket inside a class is escaped.
    return "/[" + characters[1:-1].replace("[", "\\[") + "]/"
