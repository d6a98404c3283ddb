"""Two numbers from random ones: pi, and the price of an option, each with the error that is to be expected.

Run it with `python examples/monte_carlo.py`.
"""

import math

from whit import Tensor


def estimate(samples: Tensor) -> tuple[float, float]:
    """The mean of independent samples, and how far it probably is from the truth (one standard error)."""
    return samples.mean().item(), samples.std().item() / math.sqrt(samples.numel())


def pi_samples(n: int) -> Tensor:
    """4 for each random point of the unit square that lies in the circle, 0 for the others: pi on average."""
    x, y = Tensor.rand(2, n)
    return 4.0 * (x * x + y * y < 1)


def option_samples(n: int, price: float, strike: float, rate: float, volatility: float, years: float) -> Tensor:
    """What a call option pays at the end, in today's money, if the stock does what Black and Scholes assume."""
    drift = (rate - volatility**2 / 2) * years
    final = price * (drift + volatility * math.sqrt(years) * Tensor.randn(n)).exp()
    return math.exp(-rate * years) * (final - strike).maximum(0)


def main(n: int = 1_000_000) -> dict[str, tuple[float, float]]:
    Tensor.manual_seed(7)
    results = {
        "pi": estimate(pi_samples(n)),
        "option": estimate(option_samples(n, price=100.0, strike=105.0, rate=0.03, volatility=0.2, years=1.0)),
    }
    for name, (value, error) in results.items():
        print(f"{name:6} = {value:.4f} ± {error:.4f}")
    return results


if __name__ == "__main__":
    main()
