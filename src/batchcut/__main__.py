"""`python -m batchcut`."""

from .cli import main

main()
