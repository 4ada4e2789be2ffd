"""`python -m coreplan` is the command line."""

from .cli import main

main()
