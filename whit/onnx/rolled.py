"""Loop and Scan as loops of the graph: one node, LOOP, whose body is compiled once and whose rounds are a native call.

    rolled(runner, step, count, carried, around)        its outputs; None if the loop has to be run round by round

How many rounds there are must be known without the data of tensors. It often is, although the condition is computed in
the body: exporters count rounds in a state of their own, compare it with a size, and take the part of a tensor that it
says. What the host knows is therefore computed before, for all rounds:

    i < n              ends the loop: the rounds are counted
    Gather(x, i)       each round gets its part of x, in memory that a pointer moves through
    i * 2              the same in all rounds: a number. Else a tensor that each round gets its part of

A loop that data ends is a `while_loop`, if it collects nothing.

States that no round changes are read from around the loop; the others are states of `whit.scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from whit.onnx import host
from whit.onnx.constants import host_value
from whit.onnx.graph import Graph, Step
from whit.onnx.values import lifted
from whit.records import dataclass
from whit.tensor import Tensor
from whit.tensor.control import scan, while_loop

if TYPE_CHECKING:
    from whit.onnx.run import Runner

MOST_ROUNDS: Final = 1 << 16  # that are counted on the host, at about 10 us each, once for a kind of inputs
LEAST_ROUNDS: Final = 3  # fewer are written out

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rounds:
    """What the host knows of a loop: how many rounds, names that it knows in each, the steps that it has done, and the
    values of its own states after the last round."""

    count: int
    known: list[Values]
    done: frozenset[int]
    counters: Values


@dataclass(frozen=True, slots=True)
class Ports:
    """The names of a loop's body: what it gets, and what it gives."""

    iteration: str
    condition: str
    goes_on: str
    ends: Mapping[str, str]  # by state, what it is after a round
    collected: tuple[str, ...]

    @classmethod
    def of(cls, body: Graph) -> Ports:
        """Those of the body of a Loop."""
        (iteration, condition, *states), (goes_on, *after) = _names(body.inputs), _names(body.outputs)
        count = len(states)
        return cls(iteration, condition, goes_on, dict(zip(states, after, strict=False)), tuple(after[count:]))


def rolled(
    runner: Runner, step: Step, most: int, carried: Sequence[Any], around: Values, isolated: frozenset[Any]
) -> list[Any] | None:
    """The outputs of a Loop that goes on at first. `isolated` are the operators that run graphs."""
    body: Graph = step.node.get("body")
    if any(isinstance(value, list | dict) or value is None for value in carried):
        return None
    ports, origin = Ports.of(body), _origins(body)
    begun = dict(zip(ports.ends, carried, strict=True))
    same = {state: begun[state] for state, end in ports.ends.items() if origin(end) == state}
    around = {**body.constants, **around, **same}
    first = {state: value for state, value in begun.items() if state not in same}
    search = _Search(body, around, ports, isolated)
    rounds = search.rounds(first, most)
    if rounds is None:
        if ports.collected or search.is_long:  # one that no data ends may never end: it has to be interruptible
            return None
        return _while(runner, body, ports, most, first, {**around, **same}, same)
    if rounds.count < LEAST_ROUNDS:
        return None
    return _outputs(_Written(runner, body, around, rounds), rounds, ports, first, same)


def _outputs(written: _Written, rounds: Rounds, ports: Ports, first: Values, same: Values) -> list[Any]:
    """The outputs of a Loop: the last states, and what was collected. `first` are the states that change, `same` the
    others."""
    moving = {state: value for state, value in first.items() if state not in rounds.counters}
    device = [name for name in dict.fromkeys(ports.collected) if name not in rounds.known[0]]
    last, rows = written.run(moving, [ports.ends[state] for state in moving], device)
    found = {**same, **rounds.counters, **dict(zip(moving, last, strict=True))}
    stacks = dict(zip(device, rows, strict=True))
    stacks.update({name: written.stacked(name) for name in ports.collected if name not in stacks})
    return [*(found[state] for state in ports.ends), *(stacks[name] for name in ports.collected)]


def _while(
    runner: Runner, body: Graph, ports: Ports, most: int, first: Values, around: Values, same: Values
) -> list[Any]:
    """The last states of a Loop that data ends, and that collects nothing: nobody knows for how many there is room."""
    written = _Written(runner, body, around, Rounds(0, [], frozenset(), {}))
    states = {name: written.tensor(value) for name, value in first.items()}
    device = runner.context.device
    begun = {
        "number": Tensor(np.array(0), device=device),
        "goes_on": Tensor(np.array(True), device=device),
        **states,
    }

    def round_(before: dict[str, Tensor]) -> dict[str, Tensor]:
        given = {name: before[name] for name in states}
        live = written.after_round({ports.iteration: before["number"], ports.condition: np.array(True), **given})
        after = {name: written.tensor(live[ports.ends[name]]) for name in states}
        return {
            "number": before["number"] + 1,
            "goes_on": written.tensor(live[ports.goes_on]).reshape(()),
            **after,
        }

    last = while_loop(lambda state: state["goes_on"] & (state["number"] < most), _named(round_), begun)
    return [last[name] if name in last else same[name] for name in ports.ends]


def scan_rolled(
    runner: Runner, body: Graph, states: Sequence[Any], inputs: Sequence[Tensor], around: Values
) -> tuple[list[Any], list[Any]]:
    """(states, outputs along the first axis) of a body over parts of inputs along the first axis."""
    names, results = _names(body.inputs), _names(body.outputs)
    count = len(states)
    written = _Written(runner, body, {**body.constants, **around}, Rounds(int(inputs[0].shape[0]), [], frozenset(), {}))
    written.parts.update(zip(names[count:], inputs, strict=True))
    return written.run(dict(zip(names, states, strict=False)), results[:count], results[count:])


class _Search:
    """Finds out how many rounds there are, and what the host knows in each."""

    def __init__(self, body: Graph, around: Values, ports: Ports, isolated: frozenset[Any]) -> None:
        self._body, self._around, self._ports, self._isolated = body, around, ports, isolated
        self.is_long = False  # the rounds do not depend on data, and are too many to be counted

    def rounds(self, first: Values, most: int) -> Rounds | None:
        """None if that depends on data."""
        counters, done = self._counters(first)
        ends = self._ports.ends
        known: list[Values] = []
        for number in range(min(most, MOST_ROUNDS + 1)):
            env, again = self._round(number, counters, done)
            truth = self._found(env, self._ports.goes_on)
            if again != done or truth is None or truth.size != 1:
                return None
            known.append({name: value for name, value in env.items() if name not in self._around})
            counters = {name: self._found(env, ends[name]) for name in counters}
            if not truth.reshape(-1)[0]:
                break
        self.is_long = len(known) > MOST_ROUNDS
        return None if self.is_long else Rounds(len(known), known, frozenset(done), counters)

    def _counters(self, first: Values) -> tuple[Values, list[int]]:
        """The states that the host knows after a round if it knows them before, and the steps that it computes."""
        counters = {name: found for name, value in first.items() if (found := host_value(value)) is not None}
        while True:
            env, done = self._round(0, counters, range(len(self._body.steps)))
            lost = [name for name in counters if self._found(env, self._ports.ends[name]) is None]
            if not lost:
                return counters, done
            for name in lost:
                del counters[name]

    def _round(self, number: int, counters: Values, steps: Iterable[int]) -> tuple[Values, list[int]]:
        """What the host knows in a round, and the steps that it has computed."""
        own = {self._ports.iteration: np.array(number, np.int64), self._ports.condition: np.array(True)}
        env = {**self._around, **counters, **own}
        done = []
        for place in steps:
            step = self._body.steps[place]
            results = self._computed(step, env)
            if results is not None:
                env.update({name: value for name, value in zip(step.outputs, results, strict=False) if name})
                done.append(place)
        return env, done

    def _computed(self, step: Step, env: Values) -> tuple[Any, ...] | None:
        if step.body is not None or not step.inputs or (step.node.domain, step.node.op_type) in self._isolated:
            return None
        given = []
        for name in step.inputs:
            value = host_value(env[name]) if name in env else None
            if name and value is None:
                return None
            given.append(value)
        return host.evaluate(step.node, given)

    def _found(self, env: Values, name: str) -> Any:
        return host_value(env[name]) if name in env else None


class _Written:
    """The body of a loop as a function of tensors."""

    def __init__(self, runner: Runner, body: Graph, around: Values, rounds: Rounds) -> None:
        self._runner, self._inner, self._around, self._rounds = runner, runner.inner(body), around, rounds
        self._steps = [step for number, step in enumerate(body.steps) if number not in rounds.done]
        self.parts: dict[str, Tensor] = {}  # what each round gets a part of, along the first axis
        self._numbers: Values = {}  # what is the same in all rounds

    def run(self, states: Values, ends: Sequence[str], collected: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """(states after the last round, what rounds give); `ends` are the names of states after a round."""
        self._steps = [step for step in self._steps if not self._takes_part(step)]
        self._give_numbers([*ends, *collected])
        if not states and not collected:
            return [], []
        names = list(states)

        def round_(before: list[Any], parts: dict[str, Tensor]) -> tuple[list[Any], list[Any]]:
            live = self.after_round({**dict(zip(names, before, strict=True)), **parts})
            return [self.tensor(live[name]) for name in ends], [self.tensor(live[name]) for name in collected]

        first = [self.tensor(value) for value in states.values()]
        return scan(_named(round_), first, self.parts, self._rounds.count)

    def stacked(self, name: str) -> Any:
        """What the host knows in each round, put together."""
        return np.stack([values[name] for values in self._rounds.known])

    def after_round(self, given: Values) -> Values:
        """All values by name after a round, of those that are given."""
        live = {**self._around, **self._numbers, **given}
        for step in self._steps:
            results = self._inner.step(step, live)
            live.update({name: value for name, value in zip(step.outputs, results, strict=False) if name})
        return live

    def tensor(self, value: Any) -> Any:
        """A value as a tensor."""
        return lifted(self._runner.value(value, False), self._runner.context.device)

    def _give_numbers(self, results: Sequence[str]) -> None:
        """What the host knows, and steps or results need: a number, or something that each round gets its part of."""
        known = self._rounds.known
        needed = dict.fromkeys([*(name for step in self._steps for name in step.reads()), *results])
        for name in [name for name in needed if known and name in known[0]]:
            values = [each[name] for each in known]
            if all(np.array_equal(values[0], other) for other in values[1:]):
                self._numbers[name] = values[0]
            else:
                self.parts[name] = self.tensor(np.stack(values))

    def _takes_part(self, step: Step) -> bool:
        """Whether a step takes the part of a tensor from around that the host says: then each round gets it."""
        if (step.node.domain, step.node.op_type) != ("", "Gather") or not self._rounds.known:
            return False
        whole, which = step.inputs
        if whole not in self._around or which not in self._rounds.known[0]:
            return False
        places = np.stack([values[which] for values in self._rounds.known])
        x = self.tensor(self._around[whole])
        axis = int(step.node.get("axis", 0)) % max(x.ndim, 1)
        size = int(x.shape[axis])
        if places.ndim != 1 or int(places.min()) < -size or int(places.max()) >= size:
            return False
        places = np.where(places < 0, places + size, places)
        order = [axis, *(each for each in range(x.ndim) if each != axis)]
        rows = x.permute(order) if axis else x
        (output,) = step.outputs
        self.parts[output] = _taken(rows, places)
        return True


def _taken(rows: Tensor, places: Any) -> Tensor:
    """Rows in an order; those that follow one another without a copy."""
    steps = set(np.diff(places).tolist())
    if steps <= {1}:
        return rows[int(places[0]) : int(places[-1]) + 1]
    if steps == {-1}:
        return rows[int(places[-1]) : int(places[0]) + 1].flip(0)
    return rows[lifted(places.astype(np.int64), rows.device)]


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with the name that a recording shows."""
    function.__name__ = "round"
    return function


def _names(ports: Iterable[Any]) -> list[str]:
    return [port.name for port in ports]


def _origins(body: Graph) -> Callable[[str], str]:
    """For a name what it is another name of."""
    known = {step.outputs[0]: step.inputs[0] for step in body.steps if step.node.op_type == "Identity"}

    def origin(name: str) -> str:
        while name in known:
            name = known[name]
        return name

    return origin
