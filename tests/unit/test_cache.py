"""Caches with a bound: what was used last stays."""

import pytest

from whit.cache import RecentlyUsed, clear_caches
from whit.errors import InternalError


def test_what_was_not_used_for_the_longest_time_goes_first() -> None:
    kept: RecentlyUsed[str, int] = RecentlyUsed("test.used", 2)
    kept["a"], kept["b"] = 1, 2
    assert kept.get("a") == 1
    kept["c"] = 3
    assert dict(kept.items()) == {"a": 1, "c": 3}
    assert kept.get("b") is None
    assert "a" in kept
    assert len(kept) == 2


def test_values_weigh_what_they_say() -> None:
    kept: RecentlyUsed[int, list[int]] = RecentlyUsed("test.weights", 5, len)
    kept[0], kept[1] = [1, 2], [1, 2]
    kept[1] = [1, 2, 3]  # instead of the old one
    assert [key for key, _ in kept.items()] == [0, 1]
    kept[2] = [1]
    assert [key for key, _ in kept.items()] == [1, 2]
    kept[3] = [1] * 9  # the newest stays, whatever it weighs
    assert [key for key, _ in kept.items()] == [3]


def test_all_are_emptied_at_once_and_names_are_unique() -> None:
    kept: RecentlyUsed[int, int] = RecentlyUsed("test.emptied", 3)
    kept[1] = 1
    clear_caches()
    assert len(kept) == 0
    kept[1], kept[2], kept[3], kept[4] = 1, 2, 3, 4
    assert len(kept) == 3
    with pytest.raises(InternalError, match="already is"):
        RecentlyUsed("test.emptied", 3)
