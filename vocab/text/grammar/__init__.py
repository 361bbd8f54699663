"""A list as a grammar, for engines that read one: EBNF, and the same in Lark's syntax."""
