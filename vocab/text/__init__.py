"""Which texts are of a list: the reader and its kernels, checks and reports of a text, and grammars for others."""
