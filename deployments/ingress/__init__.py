"""HTTP: layers, routes, streaming."""
