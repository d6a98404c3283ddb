"""What whit.jax does by itself: names, keys with JAX's numbers, trees, jit, custom derivatives, wrong calls."""

import sys
from pathlib import Path
from typing import Any

import pytest

import whit.jax.numpy as jnp
from whit import jax
from whit.errors import ArgumentError, ShapeError

sys.path.append(str(Path(__file__).parents[2] / "docs"))
from names_of_others import coverage, read  # a module of the documentation


def test_the_list_of_names_says_what_is_here() -> None:
    names = read("jax")
    for name in names:
        found: Any = jax
        for part in name.name.split("."):
            found = getattr(found, part, None)
        assert (found is not None) == name.is_here, name.name
    here, sensible = coverage(names)
    assert here / sensible >= 0.97


def test_numbers_of_keys_are_those_of_jax() -> None:
    key = jax.random.PRNGKey(42)
    assert jax.random.split(key).tolist() == [[1832780943, 270669613], [64467757, 2916123636]]
    assert jax.random.fold_in(key, 7).tolist() == [2547012911, 1371500959]
    assert jax.random.normal(key, (2,)).tolist() == pytest.approx([-0.028304616, 0.46713185], abs=1e-6)


def test_what_is_no_key_is_an_error() -> None:
    with pytest.raises(ShapeError, match="is no key"):
        jax.random.normal(jnp.arange(3), (2,))
    with pytest.raises(ArgumentError, match="is no seed"):
        jax.random.key(1.5)


def test_trees_are_in_the_order_of_their_keys() -> None:
    leaves, structure = jax.tree.flatten({"b": 1, "a": [2, None, (3,)]})
    assert leaves == [2, 3, 1]
    assert str(structure) == "PyTreeDef({'a': [*, None, (*,)], 'b': *})"
    assert structure.unflatten([5, 6, 7]) == {"a": [5, None, (6,)], "b": 7}
    with pytest.raises(ArgumentError, match="2 leaves for a structure of 3"):
        structure.unflatten([1, 2])
    with pytest.raises(ArgumentError, match="the structures differ"):
        jax.tree.map(lambda a, b: a, {"a": 1}, {"b": 1})


def test_jit_captures_once_for_each_static_value() -> None:
    calls = []

    def power(x: Any, n: int) -> Any:
        calls.append(n)
        return x**n

    fast = jax.jit(power, static_argnums=1)
    x = jnp.arange(3.0)
    assert [fast(x, 2).tolist(), fast(x + 1, 2).tolist(), fast(x, 3).tolist()] == [[0, 1, 4], [1, 4, 9], [0, 1, 8]]
    assert set(calls) == {2, 3}
    assert jax.jit(power, static_argnames="n")(x, n=2).tolist() == [0, 1, 4]
    with pytest.raises(ArgumentError, match="cannot be a key"):
        fast(x, [2])


def test_gradients_go_through_jit_and_jit_through_gradients() -> None:
    cube = jax.jit(lambda x: x**3)
    assert jax.grad(cube)(2.0).item() == 12
    assert jax.jit(jax.grad(cube))(2.0).item() == 12
    assert jax.vmap(jax.grad(cube))(jnp.arange(3.0)).tolist() == [0, 3, 12]


def test_functions_without_derivatives_say_so() -> None:
    with pytest.raises(ArgumentError, match="has no gradient"):
        jax.custom_vjp(lambda x: x)(1.0)
    with pytest.raises(ArgumentError, match="has no derivative"):
        jax.custom_jvp(lambda x: x)(1.0)


def test_at_counts_positions_that_are_named_twice() -> None:
    x = jnp.zeros(3)
    assert x.at[jnp.array([1, 1, 2])].add(2.0).tolist() == [0, 4, 2]
    assert x.at[1:].set(5.0).at[0].min(-1.0).tolist() == [-1, 5, 5]
    assert x.tolist() == [0, 0, 0]
    assert jax.grad(lambda v: (v.at[jnp.array([0, 0])].add(v[1]) ** 2).sum())(jnp.ones(3)).tolist() == [6, 14, 2]


def test_shapes_are_found_without_computing() -> None:
    found = jax.eval_shape(lambda x: {"y": x @ x.T}, jax.ShapeDtypeStruct((2, 3), jnp.float32))
    assert found == {"y": jax.ShapeDtypeStruct((2, 2), jnp.float32)}
