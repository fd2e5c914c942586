"""`python -m midfea` is the command `midfea`."""

from midfea.cli import main

if __name__ == "__main__":
    main()
