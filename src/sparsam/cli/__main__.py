"""`python -m sparsam.cli`, the form that torchrun starts."""

from sparsam.cli import main

if __name__ == "__main__":
    main()
