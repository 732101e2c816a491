"""`python -m sparsam.lab.cli`, the form that torchrun starts."""

from sparsam.lab.cli import main

if __name__ == "__main__":
    main()
