"""Words a second of language models, beside llama.cpp (the package xllamacpp) on the same file and as many threads.

    python bench/llm.py model.gguf ...                       whit and, if it is installed, llama.cpp
    python bench/llm.py model.gguf --threads 1               by the processor's time: others may use the machine
    python bench/llm.py model.gguf --only whit

Decode: words one after the other from position 5 on, greedy, the fastest of some runs of 32. Prefill: a prompt of
512 words, of which
the cache knows nothing. First: from nothing to the first word of a short prompt, in this process, with kernels on disk.
Python: time of a step that is not spent in kernels. Part of the floor: bytes of the weights that a step reads, at
the speed at
which the same process sums as many bytes of float32.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

PROMPT = [504, 3575, 282, 4649, 314]
LONG = list(range(1000, 1512))
WORDS, TURNS = 32, 4


def clock_of(threads: int) -> Callable[[], float]:
    """The processor's time where there is one thread."""
    return time.process_time if threads == 1 else time.perf_counter


def ours(path: str, threads: int) -> dict[str, float]:
    """What whit does."""
    now = clock_of(threads)
    os.environ["THREADS"] = str(threads)
    start = now()
    from whit.llm import Sampling, load  # lazy: a part of the time to the first word

    model = load(path, context=1024)
    runner = model.runner
    assert runner is not None
    next(runner.tokens(PROMPT, Sampling()))
    first = now() - start
    decode, prefill, python = [], [], []
    for _ in range(TURNS):
        words = runner.tokens(PROMPT, Sampling())
        for _ in range(2):
            next(words)
        kernels = KernelTime(now)
        start = now()
        for _ in range(WORDS):
            next(words)
        spent = now() - start
        python.append((spent - kernels.end()) / WORDS)
        decode.append(WORDS / spent)
        runner.past.clear()
        start = now()
        next(runner.tokens(LONG, Sampling()))
        prefill.append(len(LONG) / (now() - start))
        runner.past.clear()
    nbytes = sum(_nbytes(entry) for name, entry in model.entries.items() if name != "token_embd.weight")
    if "output.weight" not in model.entries:
        nbytes += _nbytes(model.entries["token_embd.weight"])
    floor = nbytes / _bytes_a_second(now, nbytes)
    return {
        "decode": max(decode),
        "prefill": max(prefill),
        "first": first,
        "python": min(python) * 1e6,
        "floor": floor * max(decode),
    }


def _nbytes(entry: Any) -> int:
    return int(np.prod(entry.shape)) // entry.kind.elements * entry.kind.nbytes


def _bytes_a_second(now: Callable[[], float], nbytes: int) -> float:
    from whit import Tensor, TinyJit  # lazy: as above

    data = Tensor(np.ones(nbytes // 4, np.float32)).realize()
    add = TinyJit(lambda x: x.sum())
    best = float("inf")
    for _ in range(8):
        start = now()
        add(data).item()
        best = min(best, now() - start)
    return nbytes / best


class KernelTime:
    """The time of native calls from now on."""

    def __init__(self, now: Callable[[], float]) -> None:
        from whit.runtime.pool import threads  # lazy: as above

        pool = threads._pool
        assert pool is not None
        self.now, self.spent, self.pool, self.run = now, 0.0, pool, pool.run
        pool.run = self.timed

    def timed(self, *given: Any) -> Any:
        """Runs launches."""
        start = self.now()
        found = self.run(*given)
        self.spent += self.now() - start
        return found

    def end(self) -> float:
        """Seconds; nothing is timed any more."""
        self.pool.run = self.run
        return self.spent


def theirs(path: str, threads: int) -> dict[str, float]:
    """What llama.cpp does."""
    now = clock_of(threads)
    start = now()
    x = importlib.import_module("xllamacpp")
    settings = x.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel, settings.warmup = path, 1024, 1, False
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    server = x.Server(settings)

    def asked(prompt: list[int], words: int) -> float:
        given = {"prompt": prompt, "max_tokens": words, "temperature": 0, "top_k": 1, "cache_prompt": False}
        begin = now()
        server.handle_completions({**given, "ignore_eos": True})
        return now() - begin

    asked(PROMPT, 1)
    first = now() - start
    decode, prefill = [], []
    for _ in range(TURNS):
        one = asked(PROMPT, 1)
        decode.append(WORDS / (asked(PROMPT, WORDS + 1) - one))
        prefill.append(len(LONG) / asked(LONG, 1))
    return {
        "decode": max(decode),
        "prefill": max(prefill),
        "first": first,
        "python": float("nan"),
        "floor": float("nan"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=("whit", "llama.cpp"))
    parser.add_argument("--json", action="store_true", help="one line for each, to be read by programs")
    options = parser.parse_args()
    sides = {"whit": ours, "llama.cpp": theirs}
    if importlib.util.find_spec("xllamacpp") is None:
        del sides["llama.cpp"]
    if not options.json:
        print("| file | | decode, words/s | prefill, words/s | first word, s | Python, us | part of the floor |")
        print("|---|---|---|---|---|---|---|")
    for path in options.files:
        for name, side in sides.items():
            if options.only not in (None, name):
                continue
            found = side(path, options.threads)
            if options.json:
                print(json.dumps({"file": os.path.basename(path), "side": name, **found}), flush=True)
                continue
            numbers = " | ".join(f"{found[key]:.{2 if key in ('first', 'floor') else 1}f}" for key in found_order())
            print(f"| {os.path.basename(path)} | {name} | {numbers} |", flush=True)


def found_order() -> tuple[str, ...]:
    """The columns."""
    return ("decode", "prefill", "first", "python", "floor")


if __name__ == "__main__":
    main()
