"""Flash attention on a CPU: `blocks` builds it, `sizes` cuts it, `sweep` is one walk over the keys."""
