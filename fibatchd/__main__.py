"""`python -m fibatchd` and the `fibatchd` console script."""

from fibatchd.cli import main

if __name__ == "__main__":
    main()
