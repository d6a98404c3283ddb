"""Merging neighbours, the best pair first: what byte pairs and SentencePiece have in common.

    merge(["a", "b", "c"], {("b", "c"): 0}.get) -> ["a", "bc"]

A heap of candidates and a linked list: n log n, so that a text without spaces takes no longer than another.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Rank = Callable[[tuple[str, str]], float | None]


def merge(symbols: list[str], rank: Rank) -> list[str]:
    """Pairs are merged as long as one has a rank, the lowest first, of equal ones the leftmost."""
    count = len(symbols)
    if count < 2:
        return symbols
    texts = list(symbols)
    after, before = list(range(1, count + 1)), list(range(-1, count - 1))
    heap = [
        (found, i, i + 1, texts[i], texts[i + 1])
        for i in range(count - 1)
        if (found := rank((texts[i], texts[i + 1]))) is not None
    ]
    heapq.heapify(heap)
    while heap:
        _, left, right, first, second = heapq.heappop(heap)
        if after[left] != right or texts[left] != first or texts[right] != second:
            continue  # one of them was merged with another
        texts[left], texts[right] = first + second, ""
        after[left] = after[right]
        if after[right] < count:
            before[after[right]] = left
        for a, b in ((before[left], left), (left, after[left])):
            if a >= 0 and b < count and (found := rank((texts[a], texts[b]))) is not None:
                heapq.heappush(heap, (found, a, b, texts[a], texts[b]))
    return [text for text in texts if text]
