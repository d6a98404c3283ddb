"""Text and object code turned into something that runs.

`llvm` compiles LLVM IR to object code, `elf` links object code into this process, `library` is what comes out,
`gcc` does the same for C, and `threads` runs kernels on a pool of native threads. Nothing here knows about graphs.
Modules that load a compiler are imported when the first kernel is compiled, never before.
"""
