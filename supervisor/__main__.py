"""`python -m supervisor`, which `stoker run` execs."""

import sys

from supervisor.cli import main

if __name__ == "__main__":
    sys.exit(main())
