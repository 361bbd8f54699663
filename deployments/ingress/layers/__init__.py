"""The layers that every request passes, as pure ASGI."""
