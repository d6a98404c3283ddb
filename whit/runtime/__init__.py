"""Text and object code turned into something that runs, and the memory that it runs on.

`code` compiles and links, `pool` runs kernels on native threads, `cuda` is the driver of NVIDIA's GPUs. `buffer` is
memory, made of `blocks`, `disk` are files, `dlpack` shares memory with other libraries. Nothing here knows about
graphs. Modules that load a compiler are imported when the first kernel is compiled, never before.
"""
