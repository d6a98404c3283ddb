"""`python -m whit.viz.metrics PAGE LOG ...` writes a page about logs."""

import sys

from whit.viz.metrics.page import write_page

if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].endswith(".html"):
        raise SystemExit("usage: python -m whit.viz.metrics PAGE.html LOG ...")
    write_page(sys.argv[1], sys.argv[2:])
