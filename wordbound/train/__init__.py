"""Adapters that make a model write better within word lists: have texts written, choose them, and train on them."""
