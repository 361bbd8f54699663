"""How a replica writes the texts of a request by its decoding: samples, beams, candidates, sentence by sentence."""
