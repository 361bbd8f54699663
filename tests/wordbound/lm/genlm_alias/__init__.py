"""The names under which genlm-backend's own tests import what they test, and what they need beside it.

Each module stands for one of theirs; the tests run in a process that finds these in the place of the package.
"""
