"""Numbers that losses and selection must agree on."""

DEFAULT_TEMPERATURE = 0.1
"""τ where nobody says one: of every loss, and of every plan."""
