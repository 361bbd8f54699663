"""Regular expressions and grammars that are wrong, that no text fits, or that could keep an engine busy for long."""

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
    'root ::= ""\n# wordbound/7 list=' + "0" * 64 + " changes=- options=auto.prose.0.standard.word n=5 max=- at=- "
    "norepeat=- seen=- min=0 behind=- controls=-\n",
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
