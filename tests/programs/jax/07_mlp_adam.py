"""A network as a list of layers, initialised from keys, trained by Adam written by hand."""

import whit.jax as jax
import whit.jax.numpy as jnp
from whit.jax import random


def init_layer(m, n, key, scale=0.5):
    w_key, b_key = random.split(key)
    return {"w": scale * random.normal(w_key, (n, m)), "b": scale * random.normal(b_key, (n,))}


def init_network(sizes, key):
    keys = random.split(key, len(sizes))
    return [init_layer(m, n, k) for m, n, k in zip(sizes[:-1], sizes[1:], keys)]


def predict(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(jnp.dot(layer["w"], x) + layer["b"])
    last = params[-1]
    return jnp.dot(last["w"], x) + last["b"]


batched = jax.vmap(predict, in_axes=(None, 0))


def loss(params, x, y):
    logits = batched(params, x)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * y, axis=1))


def adam_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"m": zeros, "v": zeros, "t": 0}


def adam_update(grads, state, params, lr=0.05, b1=0.9, b2=0.999, eps=1e-8):
    t = state["t"] + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["v"], grads)
    step = lambda p, m, v: p - lr * (m / (1 - b1**t)) / (jnp.sqrt(v / (1 - b2**t)) + eps)
    return jax.tree.map(step, params, m, v), {"m": m, "v": v, "t": t}


@jax.jit
def train_step(params, state, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    params, state = adam_update(grads, state, params)
    return params, state, value


def main():
    x = random.uniform(random.PRNGKey(1), (40, 2), minval=-1.0)
    labels = (x[:, 0] * x[:, 1] > 0).astype(jnp.int32)
    y = jax.nn.one_hot(labels, 2)
    params = init_network([2, 8, 2], random.PRNGKey(0))
    state = adam_init(params)
    values = []
    for _ in range(30):
        params, state, value = train_step(params, state, x, y)
        values.append(float(value))
    accuracy = jnp.mean(jnp.argmax(batched(params, x), axis=1) == labels)
    return {
        "first": values[:3],
        "falls": values[-1] < 0.3,
        "accurate": float(accuracy) > 0.9,
        "leaves": len(jax.tree.leaves(params)),
        "steps": int(state["t"]),
    }
