"""What bounds the memory and the time that a connection takes."""
