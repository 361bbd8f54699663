"""Our models and word lists in programs of other libraries, each imported with the module of its name."""
