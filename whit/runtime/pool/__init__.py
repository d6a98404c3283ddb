"""The pool of native threads (`threads`; its code is `text` and `kernels`), and what its replays look at first: `words`
and `fields`."""
