"""`python -m sepgp` is the command `sepgp`."""

from sepgp.cli.main import main

if __name__ == "__main__":
    main()
