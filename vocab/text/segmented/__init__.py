"""Texts of languages written without spaces, cut into words."""
