"""Trees of parameters: flattened, rebuilt, reduced, mapped together, and a class of one's own."""

import whit.jax as jax
import whit.jax.numpy as jnp


@jax.tree_util.register_pytree_node_class
class Interval:
    def __init__(self, low, high, unit):
        self.low, self.high, self.unit = low, high, unit

    def tree_flatten(self):
        return (self.low, self.high), self.unit

    @classmethod
    def tree_unflatten(cls, unit, children):
        return cls(*children, unit)


def main():
    tree = {"b": [1, (2, None)], "a": {"x": 3.0, "y": jnp.arange(3)}}
    leaves, structure = jax.tree.flatten(tree)
    doubled = jax.tree.map(lambda leaf: leaf * 2, tree)
    total = jax.tree.reduce(lambda a, b: a + jnp.sum(b), tree, 0.0)
    rebuilt = jax.tree.unflatten(structure, leaves)
    interval = jax.tree.map(lambda v: v + 1, Interval(0.0, 1.0, "m"))
    slopes = jax.grad(lambda i: (i.high - i.low) ** 2)(Interval(1.0, 4.0, "s"))
    moved = jax.tree.transpose(
        jax.tree.structure([0, 0]), jax.tree.structure({"p": 0, "q": 0}), [{"p": 1, "q": 2}, {"p": 3, "q": 4}]
    )
    return {
        "count": len(leaves),
        "order": [float(jnp.sum(leaf)) for leaf in leaves],
        "structure": str(structure),
        "doubled": [doubled["b"][1][0], float(doubled["a"]["x"]), doubled["a"]["y"].tolist()],
        "total": float(total),
        "same": jax.tree.structure(rebuilt) == structure,
        "interval": [interval.low, interval.high, interval.unit],
        "slopes": [float(slopes.low), float(slopes.high)],
        "moved": moved,
    }
