"""Text and object code turned into something that runs, and the memory that it runs on.

`llvm` compiles LLVM IR to object code, `link` brings object code into this process (`elf`, or `orc`), `library` is
what comes out, `gcc` does all of that for C, and `threads` runs kernels on a pool of native threads. `buffer` is
memory, `disk` are files, `dlpack` shares memory with other libraries. Nothing here knows about graphs. Modules that
load a compiler are imported when the first kernel is compiled, never before.
"""
