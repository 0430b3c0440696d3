"""What the work on ringbco needs, and no user of it."""
