"""Learns to balance a pole on a cart, from nothing but how long it stood: policy gradient, many games at once.

Run it with `python examples/policy_gradient.py [--rounds 40]`. The physics are those of Barto, Sutton and Anderson
(1983), as tensors over all games. A game is over when the pole leans more than 12 degrees, the cart is more than 2.4
from the middle, or after 200 moves. Pushing at random keeps the pole up for about 22 moves; expect more than 150 after
40 rounds, in about a minute on 2 cores.
"""

import argparse
import math

from whit import Tensor, TinyJit, nn
from whit.progress import trange

GAMES = 64
GRAVITY, CART, POLE, HALF_LENGTH, PUSH, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


class Policy:
    """States (n, 4) to the logits of pushing to the left and to the right (n, 2)."""

    def __init__(self, width: int = 32) -> None:
        self.inside, self.out = nn.Linear(4, width), nn.Linear(width, 2)

    def __call__(self, state: Tensor) -> Tensor:
        return self.out(self.inside(state).tanh())


def move(state: Tensor, action: Tensor) -> Tensor:
    """Where carts and poles are a moment later: place, speed, angle and its speed of each game (games, 4)."""
    _, speed, angle, turn = (part.squeeze(1) for part in state.chunk(4, dim=1))
    force = PUSH * (2 * action - 1)
    sine, cosine = angle.sin(), angle.cos()
    push = (force + POLE * HALF_LENGTH * turn.square() * sine) / (CART + POLE)
    turning = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4 / 3 - POLE * cosine.square() / (CART + POLE)))
    pushing = push - POLE * HALF_LENGTH * turning * cosine / (CART + POLE)
    return state + SECONDS * Tensor.stack(speed, pushing, turn, turning, dim=1)


@TinyJit
def play_step(policy: Policy, state: Tensor, alive: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One move of all games: what was done, where that leads, and who still plays after it."""
    action = policy(state).softmax().multinomial().squeeze(1)
    after = move(state, action)
    alive = alive & (after[:, 0].abs() < 2.4) & (after[:, 2].abs() < math.radians(12))
    Tensor.realize(action, after, alive)
    return action, after, alive


def play(policy: Policy, moves: int) -> tuple[Tensor, Tensor, Tensor]:
    """States (moves, games, 4), actions and who played (moves, games) of games that begin near the middle."""
    state, alive = Tensor.uniform(GAMES, 4, low=-0.05, high=0.05), Tensor.full((GAMES,), True)
    Tensor.realize(state, alive)
    states, actions, playing = [], [], []
    for _ in range(moves):
        states.append(state)
        playing.append(alive)
        action, state, alive = play_step(policy, state, alive)
        actions.append(action)
    return Tensor.stack(*states), Tensor.stack(*actions), Tensor.stack(*playing)


@TinyJit
def train_step(policy: Policy, opt: nn.optim.Optimizer, states: Tensor, actions: Tensor, playing: Tensor) -> Tensor:
    """Makes actions more likely after which the pole stood longer than it did in other games at that time."""
    rest = playing.float().flip(0).cumsum(0).flip(0)  # moves that are still to come
    advantage = (rest - rest.sum(1, keepdim=True) / playing.sum(1, keepdim=True).maximum(1)) * playing
    advantage = advantage / (advantage.square().sum() / playing.sum()).sqrt().maximum(1e-6)
    opt.zero_grad()
    chosen = policy(states).log_softmax().gather(2, actions.unsqueeze(2)).squeeze(2)
    loss = -(chosen * advantage.detach()).sum() / playing.sum()
    loss.backward()
    opt.step()
    return loss


def main(rounds: int = 40, moves: int = 200) -> list[float]:
    Tensor.manual_seed(0)
    policy = Policy()
    opt = nn.optim.Adam(nn.state.get_parameters(policy), lr=0.02)
    lengths = []
    for _ in (bar := trange(rounds)):
        states, actions, playing = play(policy, moves)
        train_step(policy, opt, states, actions, playing)
        lengths.append(playing.sum().item() / GAMES)
        bar.set_description(f"{lengths[-1]:.0f} moves")
    print(f"the pole stood for {lengths[0]:.0f} moves at first, and for {lengths[-1]:.0f} of {moves} at last")
    return lengths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    main(parser.parse_args().rounds)
