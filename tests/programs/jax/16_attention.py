"""A causal attention block from named parameters, with layer norm, checked against jax.nn."""

import whit.jax as jax
import whit.jax.numpy as jnp


def layer_norm(x, scale, bias):
    mean = x.mean(axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return scale * (x - mean) * jax.lax.rsqrt(variance + 1e-5) + bias


def attention(params, x):
    q, k, v = (jnp.einsum("td,dhk->thk", x, params[name]) for name in ("q", "k", "v"))
    logits = jnp.einsum("thk,shk->hts", q, k) / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((len(x), len(x)), dtype=bool))
    weights = jax.nn.softmax(jnp.where(mask, logits, -1e30), axis=-1)
    return jnp.einsum("hts,shk->thk", weights, v), weights


def main():
    x = jnp.sin(jnp.arange(20.0)).reshape(5, 4)
    params = {name: 0.4 * jnp.cos(jnp.arange(16.0) + i).reshape(4, 2, 2) for i, name in enumerate("qkv")}
    normed = layer_norm(x, jnp.ones(4), jnp.zeros(4))
    out, weights = attention(params, normed)
    q, k, v = (jnp.einsum("td,dhk->thk", normed, params[name]) for name in "qkv")
    reference = jax.nn.dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    slopes = jax.grad(lambda p: (attention(p, normed)[0] ** 2).sum())(params)
    return {
        "out": out[3].tolist(),
        "weights": weights[1, 4].tolist(),
        "same": bool(jnp.allclose(out, reference, atol=1e-5)),
        "slope": slopes["q"][0].tolist(),
        "gelu": jax.nn.gelu(x[0]).tolist(),
    }
