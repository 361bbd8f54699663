"""What a request may say."""
