"""The settings of the service, the limits and keys they hold, and where they come from."""
