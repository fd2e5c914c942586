"""Principal directions of codes, for a projection learned from the training images."""

from __future__ import annotations

from midfea.arrays import Array, namespace


def principal_directions(codes: Array, n_components: int) -> tuple[Array, Array]:
    """Mean (p,) of codes (n, p), and the directions (p, n_components) in which they vary most.

    Eigenvectors of the smaller one of covariance and Gram matrix, in float64, on the codes' device;
    each direction's largest component is positive, as in scikit-learn's `PCA`, whose directions these
    are to 1e-4 where their variances are not nearly equal.
    """
    xp = namespace(codes)
    codes = xp.asarray(codes, dtype=xp.float64)
    mean = codes.mean(axis=0)
    centred = codes - mean
    n, p = centred.shape
    squares, vectors = xp.linalg.eigh(centred.T @ centred if p <= n else centred @ centred.T)
    squares, vectors = (xp.flip(a, (-1,))[..., :n_components] for a in (squares, vectors))
    if p > n:
        varies = squares > 1e-12 * squares[0]  # a direction without variance stays zero
        vectors = centred.T @ vectors * xp.where(varies, squares, xp.inf) ** -0.5
    columns = xp.arange(vectors.shape[1], device=codes.device)
    largest = vectors[abs(vectors).argmax(axis=0), columns]
    return mean, vectors * xp.sign(largest)
