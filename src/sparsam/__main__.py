"""`python -m sparsam`: the command line."""

from sparsam.cli import main

if __name__ == "__main__":
    main()
