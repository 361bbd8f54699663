"""JSON around the automaton: answers by a JSON schema whose strings are texts of a word list."""
