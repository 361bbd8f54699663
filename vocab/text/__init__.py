"""The definition of allowed text, its readers and its exports."""
