"""`jax.tree_util`: `jax.tree` by its long names."""

from functools import partial as Partial  # JAX's is one that is a container

from whit.jax.tree import PyTreeDef, keystr, register_dataclass, register_pytree_node, register_pytree_node_class
from whit.jax.tree import all as tree_all
from whit.jax.tree import flatten as tree_flatten
from whit.jax.tree import leaves as tree_leaves
from whit.jax.tree import leaves_with_path as tree_leaves_with_path
from whit.jax.tree import map as tree_map
from whit.jax.tree import map_with_path as tree_map_with_path
from whit.jax.tree import reduce as tree_reduce
from whit.jax.tree import structure as tree_structure
from whit.jax.tree import transpose as tree_transpose
from whit.jax.tree import unflatten as tree_unflatten

__all__ = [
    "Partial",
    "PyTreeDef",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "tree_all",
    "tree_flatten",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
]
