"""Programs as PTX, the assembly language that NVIDIA's driver takes: `text` writes them, the others spell parts."""
