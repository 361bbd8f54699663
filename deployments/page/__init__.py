"""The page: what a browser shows at ``/``, built from ``page/`` into ``static/``."""
