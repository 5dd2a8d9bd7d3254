"""Which samples share a batch."""
