"""Formulas of `rearrange`: names of axes on both sides of an arrow, joined by parentheses.

    "b (h w) ... -> (b h) ... w"    of 4 axes    ->    [b] [h w] [...0] [...1]    and    [b h] [...0] [...1] [w]

`1` is an axis without a name, [ ]; `...` stands for all axes that are not named.
"""

from __future__ import annotations

import re
from itertools import chain

from whit.errors import ArgumentError

Group = list[str]
_DOTS = "..."
_ALONE = "... alone"  # outside of parentheses: axes of their own
_TOKEN = r"\s*(\.\.\.|[A-Za-z_]\w*|1(?!\w)|\(|\)|\S)"


def parse_formula(formula: str, rank: int, made: str) -> tuple[list[Group], list[Group]]:
    """Both sides as groups of names, one for each axis, checked against each other and the number of axes."""

    def wrong(why: str, fix: str) -> ArgumentError:
        return ArgumentError(f"rearrange: {why} in {formula!r}", made, fix)

    if not isinstance(formula, str):
        raise ArgumentError(f"rearrange: {formula!r:.60} is no formula", made, 'Write "axes before -> axes after".')
    texts = formula.split("->")
    if len(texts) != 2:
        raise wrong("there is not one arrow", 'Write "axes before -> axes after".')
    try:
        left, right = (_groups(text) for text in texts)
    except ValueError as error:
        raise wrong(str(error), "Use names, 1, ... and parentheses that are not nested.") from None
    if any(_DOTS in group for group in left):
        raise wrong("... stands in parentheses on the left", "It can be joined on the right only.")
    if _repeats_a_name(left) or _repeats_a_name(right):
        raise wrong("a name stands twice on one side", "Name each axis once.")
    extra = rank - len(left) + (1 if [_ALONE] in left else 0)
    if extra < 0 or (extra and [_ALONE] not in left):
        raise wrong(f"{len(left)} axes are named for a tensor of {rank}", "Name each axis, or use ....")
    left, right = (_without_dots(side, extra) for side in (left, right))
    if set(_names(left)) != set(_names(right)):
        odd = sorted(set(_names(left)) ^ set(_names(right)))
        raise wrong(f"{', '.join(odd)} stands on one side only", "Both sides need the same names.")
    return left, right


def _repeats_a_name(groups: list[Group]) -> bool:
    names = [_DOTS if name == _ALONE else name for name in _names(groups)]
    return len(set(names)) != len(names)


def _names(groups: list[Group]) -> list[str]:
    return list(chain.from_iterable(groups))


def _groups(side: str) -> list[Group]:
    groups: list[Group] = []
    inside = False
    for token in re.findall(_TOKEN, side.replace("…", _DOTS)):
        if token == "(":
            if inside:
                raise ValueError("parentheses are nested")
            inside = True
            groups.append([])
        elif token == ")":
            if not inside:
                raise ValueError("a parenthesis is closed and not opened")
            inside = False
        elif token == "1":
            if not inside:
                groups.append([])
        elif token == _DOTS or token.isidentifier():
            if inside:
                groups[-1].append(token)
            else:
                groups.append([_ALONE if token == _DOTS else token])
        else:
            raise ValueError(f"{token!r} is no name")
    if inside:
        raise ValueError("a parenthesis is not closed")
    return groups


def _without_dots(groups: list[Group], count: int) -> list[Group]:
    """Names in the place of `...`."""
    names = [f"{_DOTS}{i}" for i in range(count)]
    result: list[Group] = []
    for group in groups:
        if group == [_ALONE]:
            result += [[name] for name in names]
        elif _DOTS in group:
            place = group.index(_DOTS)
            result.append(group[:place] + names + group[place + 1 :])
        else:
            result.append(group)
    return result
