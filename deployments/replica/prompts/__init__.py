"""From a request to the tokens of its prompt."""
