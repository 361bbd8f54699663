"""Words taken out of a compiled list."""
