"""How texts and next words are searched for and chosen: beams, candidates, sentences; over any engine."""
