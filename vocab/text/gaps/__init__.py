"""What may stand before, between and after words: rules, and the automaton made of them."""
