"""Build the data of the cleaned word lists: which of wordfreq's entries count, and how they are spelled.

``packages`` fetches published packages, ``evidence`` reads what they know of a language, ``judge`` decides on each
entry, ``by_hand`` has what a person wrote down, and ``page`` writes the table of docs/word-lists.md.

Another language: add its countries to ``evidence.COUNTRIES`` and a file to ``by_hand`` with its ``[letters]`` and
``[junk]``; run ``python -m tools.lists TAG``; read what became of the first 5,000 entries, and write down in
``by_hand`` what is wrong. With a sample of 200 words in ``tests/vocab/lists/samples`` it may join
``evidence.FULL``.
"""
