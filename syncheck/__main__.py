"""Entry point of `python -m syncheck`."""

from syncheck.cli.app import main

if __name__ == "__main__":
    main()
