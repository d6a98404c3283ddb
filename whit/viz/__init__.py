"""Record once, look anywhere: what whit did, in one file, and the command line over it.

session      starts and ends a recording: `whit.trace(path)`, VIZ=path
recorder     what the hooks report (`whit.recording`) -> records
writer, format   records -> a file, and back; docs/trace-format.md
model        a file -> schedules, kernels, runs, memory
cli          `python -m whit.viz FILE ...`; docs/viz.md
page         the same as a page in the browser, or in one HTML file
"""

from whit.viz.session import trace

__all__ = ["trace"]
