"""Regular expressions and grammars that are wrong, that no text fits, or that could keep an engine busy for long."""

from collections.abc import Iterator
from typing import Final


def _nested(pattern: str, depth: int, repeat: str) -> str:
    for _ in range(depth):
        pattern = f"({pattern}){repeat}"
    return pattern


REGEXES: Final = (
    "(", ")", "[", "[z-a]", "*a", "a**", "a{2,1}", "a{99999999999}", "\\", "(?=a)b", "(?<!a)b", r"(a)\1", "(?R)",
    "(?P<x>",
    "[^\\s\\S]", "a{1000}{1000}{1000}", ".{0,10000}.{0,10000}.{0,10000}", "(a|aa|aaa|aaaa)+$(b)",
    _nested("a", 3, "{1,1000}"), _nested("a", 12, "{0,9}"), _nested("a", 200, "*"), _nested("a|b", 1000, "?"),
    "|".join(f"word{i}" for i in range(3_000)), "(" + "|".join("ab" * i for i in range(1, 80)) + "){1,200}",
    "(.*a.*b.*c.*){30}", r"[\p{L}\p{N}]{1,5000}", "(x+x+)+y", "((ab)*c|(ba)*d|[a-d]{5,9}){20,400}",
)  # fmt: skip

EBNF: Final = (
    "root ::= ", 'root ::= "a', "root ::= missing", 'other ::= "a"', 'root ::= "a" root', "root ::= root",
    'root ::= root "a"', 'root ::= root root | "a"', 'root ::= a\na ::= b\nb ::= a', 'root ::= ("" | root) root "x"',
    "root ::= [^]", 'root ::= ("a"{1,1000}){1,1000}', 'root ::= (("a"{0,300}){0,300}){0,300}',
    "root ::= " + "(" * 5_000 + '"a"' + ")" * 5_000,
    "\n".join([*(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)), 'r60 ::= "a"', "root ::= r0"]),
    "\n".join([*(f"r{i} ::= r{i + 1} | r{i + 1} r{i + 1}" for i in range(40)), 'r40 ::= "a"', "root ::= r0"]),
    "root ::= " + " | ".join(f'"word{i}"' for i in range(2_000)),
    'root ::= ""\n# wordbound/8 {"digest": "' + "0" * 64 + '", "options": {}, "n_words": 5}\n',
    'root ::= ""\n# llguidance/lark "start: /a{1,1000}{1,1000}/"\n',
)  # fmt: skip

LARK: Final = (
    "start: ", "start: missing", 'other: "a"', "start: start", 'start: "a" start', 'start: start start | "a"',
    "start: /(/", "start: /(a{1,1000}){1,1000}/", "start: /.{0,100000}/ /.{0,100000}/", 'start: ("a"{1,1000}){1,1000}',
    "start: " + "(" * 5_000 + '"a"' + ")" * 5_000, "%ignore /.*/", '%json {"type": 7}', "start: @99",
    "%import missing.X",
    "start: A+\nA: /x{0,50000}/", "start: /((ab)*c|(ba)*d|[a-d]{5,9}){20,400}/",
    "start: " + " | ".join(f'"word{i}"' for i in range(2_000)),
    "\n".join([*(f"r{i}: r{i + 1} r{i + 1}" for i in range(60)), 'r60: "a"', "start: r0"]),
    "start: <|im_end|>",
)  # fmt: skip


BEGINNING: Final = "One two three four five six seven eight nine ten. " * 3
"""That a model writes as it stands, for nothing else may come: more than a check of some tokens gets through."""

_EXPLOSIVE_REGEXES: Final = (
    "(([a-z ]*)*)*", "((([a-z ]*)*)*)*", "([a-z ]+)+", "(([a-z ]+)+)+\\.",
    "(a|[a-z ]|[a-c ][a-z ]*)*", "([a-z ]|[a-z ][a-z ]|[a-z ][a-z ][a-z ])*", "([a-z ]*[aeiou ][a-z ]*)*",
    "([a-z ]*,?)*([a-z ]*;?)*", "((([a-z ]+)?)*)*z", "([a-z ]*x?[a-z ]*)*", "((.|\\n)*)*",
    "([a-z ]*)*([a-z ]*)*([a-z ]*)*([a-z ]*)*",
)  # fmt: skip

_SHARP_REGEXES: Final = ("([a-z]* ?)*([a-z]* ?)*([a-z]* ?)*", "(([a-z ]{0,9}){0,9}){0,9}")
_EXPLOSIVE_EBNF: Final = (
    "e ::= e e | [a-z ]", "e ::= e e e | e e | [a-z ]", 'e ::= "" | e e | [a-z ]',
    "e ::= e [a-z ] | [a-z ] e | [a-z ]", 'e ::= [a-z ] e [a-z ] | [a-z ] | ""', "e ::= w*\nw ::= [a-z ]*",
    'e ::= b b b\nb ::= [a-z ] b | ""', 'e ::= [a-z ]* e | ""', "e ::= e* [a-z ]", "e ::= ([a-z ]+ | e e)*",
    "e ::= e e | [a-z ]{1,9}", "e ::= b e | [a-z ]\nb ::= e b | [a-z ]",
    "e ::= (e e | [a-z ])+",
)  # fmt: skip

_EXPLOSIVE_LARK: Final = (
    "e: e e | /[a-z ]/", "e: e e e | e e | /[a-z ]/", "e: | e e | /[a-z ]/", "e: e /[a-z ]/ | /[a-z ]/ e | /[a-z ]/",
    "e: /[a-z ]/ e /[a-z ]/ | /[a-z ]/ |", "e: b e | /[a-z ]/\nb: e b | /[a-z ]/", "e: /[a-z ]/ e e | /[a-z ]/",
    "e: (A | B | C)+\nA: /[a-z ]{1,9}/\nB: /[a-z ]{1,8}/\nC: /[a-z ]{1,7}/", "e: (/[a-z ]/+)+",
    "\n".join(["e: r0", *(f"r{i}: r{i + 1} r{i + 1} | r{i + 1}" for i in range(12)), "r12: /[a-z ]/*"]),
    "e: e e | A | B\nA: /[a-z ]{1,300}/\nB: /([a-z]+ )+/", "e: (/((ab)*c|(ba)*d|[a-d ]{5,9}){20,400}/ | /[a-z ]/)*",
)  # fmt: skip


_SHARP_EBNF: Final = "\n".join(
    ["e ::= r0", *(f"r{i} ::= r{i + 1} r{i + 1} | r{i + 1}" for i in range(12)), "r12 ::= [a-z ]*"]
)


def sharp(beginning: str) -> Iterator[dict[str, str]]:
    """Yield three like ``explosive`` whose one mask takes seconds after a token or two: the check must refuse them."""
    yield from ({"regex": beginning.replace(".", "\\.") + regex} for regex in _SHARP_REGEXES)
    yield {"grammar": f'root ::= "{beginning}" e\n{_SHARP_EBNF}'}


def explosive(beginning: str) -> Iterator[dict[str, str]]:
    """Yield 37 whose masks take the longer the longer the text is, as members of ``structured_outputs``.

    Each follows a ``beginning``, which may be empty; it has no marks that the languages would escape but full stops.
    """
    yield from ({"regex": beginning.replace(".", "\\.") + regex} for regex in _EXPLOSIVE_REGEXES)
    yield from ({"grammar": f'root ::= "{beginning}" e\n{rules}'} for rules in _EXPLOSIVE_EBNF)
    start = f'"{beginning}" e' if beginning else "e"
    yield from ({"grammar": f"start: {start}\n{rules}"} for rules in _EXPLOSIVE_LARK)


HIDDEN: Final[dict[str, dict[str, str]]] = {
    "regex": {"regex": r"( {2}.*|[0-9].*|(([a-z][a-z ]*)*)*)"},
    "ebnf": {
        "grammar": 'root ::= "  " x | [0-9] x | e\nx ::= [^\\n]*\ne ::= e e e | e e | [a-z] | [a-z] " " | [a-z] "  "'
    },
    "lark": {"grammar": 'start: "  " x | /[0-9]/ x | e\nx: /[^\\n]*/\ne: e e | /[a-z]/ | /[a-z] /'},
}
"""Harmless after the shortest and the longest first tokens, so only the engine sees what they cost; a model that may
write nothing but letters gets there."""
