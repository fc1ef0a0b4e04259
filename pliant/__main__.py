"""`python -m pliant`: the command line."""

from pliant.compiler.cli import main

if __name__ == "__main__":
    main()
