"""`python -m whit`: the command line (`whit.cli`)."""

import io
import sys

from whit.cli.main import main

if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a path may have letters that the terminal has not
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())
