"""The Serve graph: settings, HTTP front, vocabulary and replica."""
