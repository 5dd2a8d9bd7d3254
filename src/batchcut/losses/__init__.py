"""Contrastive losses: pure functions on (n, d) tensors, and thin modules over them."""
