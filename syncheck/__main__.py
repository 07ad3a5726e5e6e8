"""`python -m syncheck`."""

from syncheck.cli import main

if __name__ == "__main__":
    main()
