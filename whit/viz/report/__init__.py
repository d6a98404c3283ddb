"""Answers over a trace. Each file has one: `..._data` gives JSON, `..._text` says the same in words, from that alone.

overview   schedules and kernels           life       one kernel from graph to roofline
top        the most expensive kernels      memory     over time, the peak, its holders
effort     compile time by pass and rule   search     nodes and rewrites that match
changes    two traces side by side         rules      what rules say and did
"""
