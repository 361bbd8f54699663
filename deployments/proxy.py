"""Serve's callback for its proxies: ``deployments.proxy:middlewares``."""

from deployments.ingress.connections.proxy_callback import middlewares

__all__ = ["middlewares"]
