"""Tests that must know an inside. They may be deleted with it, and hold no promise of the service alone."""
