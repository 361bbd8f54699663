"""``python -m vocab.export``: see ``vocab.text.export``."""

import sys

from vocab.text.export import main

if __name__ == "__main__":
    sys.exit(main())
