"""`python -m coreplan` runs the command line."""

from .cli import main

main()
