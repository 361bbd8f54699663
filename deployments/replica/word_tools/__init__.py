"""What a replica does with a text and a word list besides writing answers."""
