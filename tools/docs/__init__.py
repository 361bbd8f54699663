"""The site of the documentation: what ``mkdocs build`` makes besides the pages of docs/.

``hooks`` is what mkdocs calls, ``api`` and ``settings`` write the generated references, ``schema`` puts JSON schemas
into words, and ``examples`` reads the blocks of code of a page for its tests. ``faults`` is run by hand.
"""
