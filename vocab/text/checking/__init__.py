"""Any text against a list: which of its words are listed, and what comes near those that are not."""
