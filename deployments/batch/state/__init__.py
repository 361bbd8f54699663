"""What is remembered of batches, and what their files hold."""
