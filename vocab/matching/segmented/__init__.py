"""Texts of languages written without spaces, whose words are found by segmentation."""
