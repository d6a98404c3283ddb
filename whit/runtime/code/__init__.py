"""Text to machine code (`llvm`, `gcc`), brought into this process (`link`: `elf` or `orc`) as a `library`."""
