"""`python -m sepgp` is the command `sepgp`."""

import sys


def run() -> None:
    """Run the command; Ctrl-C ends it quietly while its modules are still being imported."""
    try:
        from sepgp.cli.main import main

        main()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
