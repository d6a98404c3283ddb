"""Where graphs meet devices.

realize     values of graphs in memory: the way from a tensor to its numbers
plan        a schedule -> steps, with temporaries placed in one arena
compile     a kernel -> machine code, kept in memory and on disk
memory      BUFFER nodes and what is behind them
programs    traced graphs, made ready to run again and again
devices     CPU, CUDA, NULL, PYTHON, DISK; memory shared with files and other libraries
report      what ran, and why so
"""
