"""`python -m whit.viz`."""

import sys

from whit.viz.cli import main

if __name__ == "__main__":
    sys.exit(main())
