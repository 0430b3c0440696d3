"""ringbco."""
