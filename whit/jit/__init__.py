"""TinyJit: a function is captured once for each kind of arguments, and replayed without its Python from then on.

signature   the arguments of a call, as a key and a list of tensors
first_call  the function is traced, and what that has left becomes a program
guards      what a function depends on besides its arguments, and whether that is still so
capture     a trace -> what is replayed (`records`): tensors that it reads, changes and makes
replayer    runs it with the memory that tensors have now; `captured` finds that of tensors from elsewhere
check       the debug mode: each call runs plainly too
files       captured functions in files
"""
