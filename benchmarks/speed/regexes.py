"""The grammar that ``write_ebnf`` writes, as one regular expression: the same texts, for engines that read only those.

Knows the small part of EBNF that ``write_ebnf`` uses, and that it holds no recursion; knows no engine. The expression
keeps to what Python's, Rust's and xgrammar's dialects have in common.
"""

import re
from typing import Final

_PARTS: Final = re.compile(
    r'"(?:\\.|[^"\\])*"'  # a string
    r"|\[(?:\\.|[^\]\\])*\]"  # a class of characters
    r"|[a-z][a-z0-9_-]*"  # the name of a rule
    r"|\{[\d,]+\}|[()|?*+]|\s+"
)
_ESCAPED_IN_STRING: Final = re.compile(r"\\(.)")
_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")


def regex_of(ebnf: str) -> str:
    """Puts every rule of a grammar without recursion in the place of its name, from ``root`` on.

    Of several alternatives the last written comes first: ``write_ebnf`` sorts them, so "al" stands before "a".
    outlines-core follows Rust's leftmost-first rule and loses "al" otherwise.
    """
    rules = dict(line.split(" ::= ", 1) for line in ebnf.splitlines() if line)
    expressions: dict[str, str] = {}

    def expression_of(name: str) -> str:
        if name not in expressions:
            expressions[name] = _join(rules[name])
        return expressions[name]

    def _join(body: str) -> str:
        open_groups = [[""]]
        for part in _PARTS.findall(body):
            if part == "(":
                open_groups.append([""])
            elif part == ")":
                alternatives = open_groups.pop()
                open_groups[-1][-1] += _group(alternatives)
            elif part == "|":
                open_groups[-1].append("")
            else:
                open_groups[-1][-1] += _translate(part)
        return _group(open_groups[0])

    def _translate(part: str) -> str:
        if part[0] == '"':
            return _group([_literal(part[1:-1])])
        if part[0] == "[":
            return _character_class(part)
        return expression_of(part) if part[0].isalpha() else part.strip()

    if "start-unit" in rules and expression_of("start-unit") == expression_of("unit"):
        # Words are written three times in `root`, and twice where the start of a sentence makes no difference.
        start_unit = "start-unit (start-gap start-unit | gap unit)*"
        rules["root"] = rules["root"].replace(start_unit, "unit ((start-gap | gap) unit)*")
    return expression_of("root")


def _group(alternatives: list[str]) -> str:
    if len(alternatives) == 1 and len(alternatives[0]) == 1:
        return alternatives[0]
    return "(?:" + "|".join(reversed(alternatives)) + ")"


def _literal(text: str) -> str:
    plain = _ESCAPED_IN_STRING.sub(lambda match: "\n" if match[1] == "n" else match[1], text)
    return _SPECIAL.sub(r"\\\g<0>", plain).replace("\n", r"\n")


def _character_class(text: str) -> str:
    # Rust's dialect knows classes inside classes.
    return "[" + re.sub(r"\\.|\[", lambda match: r"\[" if match[0] == "[" else match[0], text[1:-1]) + "]"
