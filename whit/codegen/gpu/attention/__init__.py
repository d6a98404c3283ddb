"""Flash attention on a GPU, by tensor cores: `kernel` builds it, `sizes` cuts it, `rows` is what registers hold."""
