"""Where graphs meet devices: names and opening of devices, compiling, realising, memory, counters.

normalise   a graph over buffers -> a graph over params, the key of its schedule
plan        a schedule -> steps, with temporaries placed in one arena
compile     a kernel -> machine code, kept in memory and on disk
realize     all of it: values of graphs in memory
overlay, placeholder    what tensors are while a function is traced, and what stands for them
trace, signature, watch    a call of a function: what it does to tensors, its arguments, what else it depends on
program, capture, replayer    the trace as a program, run again with other memory
replay_records, captured, ownership    what is replayed consists of; tensors from elsewhere; who may write to them
jit         TinyJit: all of these; jit_check    its debug mode
jit_files, replay_files, program_files, result_files    captured functions in files
cpu, python, null, disk    the devices
layout, file_views   parts of files: where they lie, reading, writing
exchange    memory shared with other libraries
"""
