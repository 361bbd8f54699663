"""Where words come from: built-in lists, list files, a request's own words."""
