"""``python -m wordbound``: the command ``wordbound``."""

from wordbound.cli import main

if __name__ == "__main__":
    main()
