"""`python -m stoker`: the console, where the `stoker` script is not on the PATH."""

from stoker.console import main

if __name__ == "__main__":
    main()
