"""A process that may be killed: it compiles lists, and looks at the JSON schemas and grammars of clients."""
