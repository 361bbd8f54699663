"""What a request may say: pydantic models of the bodies, the checks between their fields, and the OpenAPI document."""
