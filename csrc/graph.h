// The nearest-neighbor graph of the tokens of each image, as ops/spectral/graph.py defines it, without an l × l matrix.
#pragma once

#include <cstdint>

#include "platform.h"

// same, tie and weakest are SAME, TIE and WEAKEST_EDGE of ops/spectral/graph.py, which explains them.
struct sv_graph_options {
    int64_t images, tokens, channels, neighbors;
    double same, tie, weakest;
    int32_t threads, reserved;
};

struct sv_graphs;  // created by sv_neighbor_graphs, freed by sv_graphs_free

// Equal tokens are one node. An edge between nodes i ≠ j stands for edges between all tokens of i and all tokens of j.
// The tokens of one node are connected to each other by edges of weight 1.
//
// nodes (images): the number of nodes. owner (images, tokens): the node of each token. sizes (images, tokens): the
// number of tokens of each node, then zeros. offsets (images, tokens + 1): where the rows of the nodes start in columns
// and weights, which hold all images one after the other; the last offset is repeated. columns ascend within a row.
struct sv_graph_arrays {
    int64_t *nodes, *offsets;
    int32_t *owner, *sizes, *columns;
    double* weights;
};

// features (images, tokens, channels), contiguous and finite; 1 ≤ neighbors < tokens - 1. *graphs is set on success
// only.
SV_EXPORT int sv_neighbor_graphs(const sv_graph_options* options, const double* features, sv_graphs** graphs);
// The length of columns and weights, all images together. This function and the next two cannot fail.
SV_EXPORT int64_t sv_graphs_entries(const sv_graphs* graphs);
SV_EXPORT void sv_graphs_copy(const sv_graphs* graphs, const sv_graph_arrays* arrays);
SV_EXPORT void sv_graphs_free(sv_graphs* graphs);
