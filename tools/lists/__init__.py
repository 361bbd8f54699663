"""Build the data of the built-in word lists: which of wordfreq's entries count, and how they are spelled.

``packages`` fetches published packages, ``evidence`` reads what they know of a language, ``wordfreq_list`` has the
entries, ``judge`` decides on each, ``by_hand`` has what a person wrote down, ``writing`` writes the list, and ``page``
the table of counts.md.

Another language: add its countries to ``evidence.COUNTRIES`` and a file to ``by_hand`` with its ``[alphabet]``,
``[letters]`` and ``[junk]``; run ``python -m tools.lists TAG``; read the first 300 words and what was left out of the
first 1,000, and write down in ``by_hand`` what is wrong: above all English words that it has too, as ``[small]``. Where
the first 5,000 were read and 200 words are a sample in ``tests/vocab/lists/samples``, it may join ``hand.FULL``, the
first tier.
"""
