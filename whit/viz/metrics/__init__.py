"""Numbers, histograms and images of a training run: a log in a file, and a page that shows one or more of them.

from whit.viz.metrics import Metrics
log = Metrics("run.metrics")
for step in range(1000):
    ...
    log.add(step, loss=loss, rate=opt.lr)
    if step % 100 == 0:
        log.histogram(step, "first layer", model.first.weight)
        log.image(step, "samples", images[:8])
log.page("run.html")                        # or: python -m whit.viz.metrics run.html run.metrics other.metrics
"""

from whit.viz.metrics.entries import read
from whit.viz.metrics.log import Metrics
from whit.viz.metrics.page import page_of, write_page

__all__ = ["Metrics", "page_of", "read", "write_page"]
