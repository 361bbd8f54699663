"""``wordbound doctor``, and what it checks: this machine, and the packages on it."""
