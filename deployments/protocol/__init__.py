"""Contents of requests: pydantic models of the bodies, checks between their fields, and the OpenAPI document."""
