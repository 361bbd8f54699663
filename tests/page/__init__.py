"""The page in a real browser, on the running application."""
