"""The neuron-selectivity layer by the appendix's own plain steps, to compare with.

Gradient steps of fixed sizes: for D, then normalised; for H_c class by class, with the mean and
the diagonal of 1 / row norm held fixed within a step; for W and b on the squared error. Nothing here
promises that the objective falls: normalising D changes it, the gradient of the separation is the
appendix's (half of the true one), and the encoder may saturate.
"""

from __future__ import annotations

from midfea.arrays import Array, namespace
from midfea.learning.selectivity.objective import Blocks, Layer, Weights, encode

N_STEPS = 30  # of each kind in a round


def plain_D(X: Array, layer: Layer) -> Array:
    """Gradient steps 2 (D H - X) H^T, then columns of unit length."""
    D, H = layer.D, layer.H
    moment, cross = H @ H.T, X @ H.T
    step_size = 1 / (2 * _largest_eigenvalue(moment))
    for _ in range(N_STEPS):
        D = D - step_size * 2 * (D @ moment - cross)
    xp = namespace(D)
    return D / xp.linalg.norm(D, axis=0).clip(xp.finfo(D.dtype).tiny)


def plain_H(
    X: Array, blocks: Blocks, layer: Layer, weights: Weights, nonnegative: bool = False
) -> Array:
    """Class by class, steps along -2 Q^T G + 2 Q^T Q H_c + lam C H_c, C = diag(1 / row norms).

    With `nonnegative`, codes below zero become zero after each step.

    C grows without bound as a row vanishes: it is cut at 1e6, and each row's step is divided by its
    own curvature, without which the steps of all rows would vanish with the first one.
    """
    xp = namespace(X)
    D, H = layer.D, xp.asarray(layer.H, copy=True)
    pull = D.T @ X + weights.alpha * encode(X, layer.W, layer.b)
    gram = D.T @ D + (weights.alpha + weights.beta) * xp.eye(len(H), dtype=H.dtype, device=H.device)
    moment = H @ H.T
    for c in blocks:
        part = xp.asarray(H[:, c], copy=True)
        curvature = gram + weights.gamma * (moment - part @ part.T)
        largest = _largest_eigenvalue(curvature)
        moment -= part @ part.T
        for _ in range(N_STEPS):
            mean = part.mean(axis=1, keepdims=True)
            norms = xp.einsum("ij,ij->i", part, part)[:, None] ** 0.5
            diagonal = weights.lam / norms.clip(1e-6)
            gradient = 2 * (curvature @ part - pull[:, c] - weights.beta * mean) + diagonal * part
            part = part - gradient / (2 * largest + diagonal)
            part = part.clip(0) if nonnegative else part
        H[:, c] = part
        moment += part @ part.T
    return H


def plain_encoder(X: Array, layer: Layer) -> tuple[Array, Array]:
    """Gradient steps on |H - sigmoid(W X + b 1^T)|^2."""
    W, b, H = layer.W, layer.b, layer.H
    # The second derivative of one sigmoid's squared error is 0.32 at most.
    spread = X @ X.T if len(X) < X.shape[1] else X.T @ X
    step_size = 1 / (0.32 * (_largest_eigenvalue(spread) + X.shape[1]))
    for _ in range(N_STEPS):
        S = encode(X, W, b)
        by_z = 2 * (S - H) * S * (1 - S)
        W = W - step_size * by_z @ X.T
        b = b - step_size * by_z.sum(axis=1)
    return W, b


def _largest_eigenvalue(matrix: Array) -> float:
    """Of a positive semi-definite matrix, by power iteration, a little too large."""
    xp = namespace(matrix)
    vector = xp.ones(len(matrix), dtype=matrix.dtype, device=matrix.device)
    for _ in range(30):
        product = matrix @ vector
        length = float(xp.linalg.norm(product))
        if length == 0:
            return 1.0
        vector = product / length
    return 1.05 * length
