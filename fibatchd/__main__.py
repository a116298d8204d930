"""`python -m fibatchd` and the `fibatchd` console script."""

from fibatchd.cli import run as main

if __name__ == "__main__":
    main()
