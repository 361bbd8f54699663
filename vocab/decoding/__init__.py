"""How a text is chosen: beams, candidates, and search by sentences, over any engine that can go on from a place."""
