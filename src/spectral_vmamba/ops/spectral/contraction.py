"""Contract interchangeable tokens: a smaller graph with the same eigenvectors, and the eigenspaces that it leaves out.

Blank images have few distinct tokens, so eigenvalues that are repeated hundreds of times. Two kinds of tokens cause
this, and both have an exact answer without an eigensolver. The vectors on the tokens of one class that are orthogonal
to a known unit vector u of the class (its *differences*) are eigenvectors of the normalized Laplacian:

- Equal tokens: edges of weight 1 to each other, and the same edges to all other tokens. u is constant, the eigenvalue
  of the differences is 1 + 1/degree.
- Leaves: tokens whose only edges lead to one common node, such as noise in front of a blank background. u is the
  square root of their degrees, the eigenvalue of the differences is 1.

All other eigenvectors are multiples of u on each class: the eigenvectors of the graph whose nodes are the classes.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.spectral.graph import affinity


@dataclass(frozen=True)
class NodeGraph:
    """The graph of one image. Equal tokens are one node; the tokens of a node have edges of weight 1 to each other."""

    owner: Int[np.ndarray, "l"]  # the node of each token
    sizes: Int[np.ndarray, "n"]  # the number of tokens of each node
    rows: Int[np.ndarray, "e"]  # the edges between tokens of different nodes, in both directions
    columns: Int[np.ndarray, "e"]
    weights: Float[np.ndarray, "e"]


@dataclass(frozen=True)
class Contraction:
    """The classes of the tokens of one image, and the normalized Laplacian on vectors that follow u on each class."""

    owner: Int[Tensor, "l"]  # the class of each token
    share: Float[Tensor, "l"]  # the entry of each token in the vector u of its class
    tokens: Int[Tensor, "q"]  # the number of tokens of each class
    differences: Float[Tensor, "q"]  # the eigenvalue of the differences within each class
    laplacian: Float[Tensor, "q q"]
    trivial: Float[Tensor, "q"]

    def expand(self, vectors: Float[Tensor, "*m q"]) -> Float[Tensor, "*m l"]:
        """From entries of classes to entries of tokens; lengths stay the same."""
        return vectors[..., self.owner] * self.share


def has_equal_tokens(features: Float[Tensor, "l c"], lengths: Float[Tensor, "l"]) -> bool:
    """Whether two tokens have the same bits; `lengths`, those of the feature vectors, are compared first."""
    tokens = len(lengths)
    return len(lengths.unique()) < tokens and len(distinct_tokens(features)[0]) < tokens


def distinct_tokens(features: Float[Tensor, "l c"]) -> tuple[Float[Tensor, "n c"], np.ndarray, np.ndarray]:
    """The tokens with different bits, the distinct token of each token, and how often each one occurs."""
    rows = np.ascontiguousarray(features.numpy())
    bits = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, owner, sizes = np.unique(bits, return_index=True, return_inverse=True, return_counts=True)
    return features[torch.from_numpy(first)], owner, sizes


def node_graph(features: Float[Tensor, "l c"], neighbors: int | None) -> NodeGraph:
    """The graph of `affinity(features, neighbors)`, of which only the part between distinct tokens is computed."""
    distinct, owner, sizes = distinct_tokens(features)
    weights = affinity(distinct[None], neighbors, torch.from_numpy(sizes))[0].numpy()
    rows, columns = weights.nonzero()
    return NodeGraph(owner, sizes, rows, columns, weights[rows, columns])


def contract(graph: NodeGraph) -> Contraction:
    nodes = len(graph.sizes)
    degree = graph.sizes - 1 + np.bincount(graph.rows, graph.weights * graph.sizes[graph.columns], nodes)
    classes, of_node = np.unique(_class_numbers(graph), return_inverse=True)
    count = len(classes)
    # All leaves of a node act as one token with the sum of their weights.
    edges = of_node[graph.rows] * count + of_node[graph.columns]
    weights = np.bincount(edges, graph.weights, count * count).reshape(count, count)
    sizes = np.ones(count)
    sizes[of_node] = graph.sizes
    class_degree = sizes - 1 + weights @ sizes
    total = class_degree * sizes
    scale = np.sqrt(sizes / class_degree)
    laplacian = np.diag(1 - (sizes - 1) / class_degree) - scale[:, None] * weights * scale
    owner = of_node[graph.owner]
    return Contraction(
        owner=torch.from_numpy(owner),
        share=torch.from_numpy(np.sqrt(degree[graph.owner] / total[owner])),
        tokens=torch.from_numpy(np.bincount(owner)),
        differences=torch.from_numpy(1 + (sizes > 1) / class_degree),
        laplacian=torch.from_numpy(laplacian),
        trivial=torch.from_numpy(np.sqrt(total / total.sum())),
    )


def _class_numbers(graph: NodeGraph) -> Int[np.ndarray, "n"]:
    """A number for each node, the same for the leaves of one node."""
    nodes = len(graph.sizes)
    neighbor = np.zeros(nodes, dtype=np.int64)
    neighbor[graph.rows] = graph.columns
    is_leaf = (graph.sizes == 1) & (np.bincount(graph.rows, minlength=nodes) == 1)
    return np.where(is_leaf, nodes + neighbor, np.arange(nodes))
