"""`coreplan`, and `python -m coreplan`: the command line."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C is one line while it is still being imported, too."""
    try:
        from .cli import main as run

        run()
    except BaseException as error:
        # While a class is being made, Python 3.11 turns an interrupt into a RuntimeError with this cause.
        if not isinstance(error, KeyboardInterrupt) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
