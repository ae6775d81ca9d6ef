// The nearest-neighbour graph of each image's tokens, as ops/spectral/graph.py defines it, without an l × l matrix.
#pragma once

#include <cstdint>

#include "platform.h"

// same, tie and weakest are SAME, TIE and WEAKEST_EDGE of ops/spectral/graph.py, which says what they mean.
struct sv_graph_options {
    int64_t images, tokens, channels, neighbors;
    double same, tie, weakest;
    int32_t threads, reserved;
};

struct sv_graphs;  // made by sv_neighbor_graphs, freed by sv_graphs_free

// Equal tokens are one node. Nodes i ≠ j with an edge stand for edges between all tokens of i and all of j; the tokens
// of one node are joined to each other by edges of weight 1. For every image: nodes (images); owner (images, tokens),
// each token's node; sizes (images, tokens), each node's number of tokens, then 0; offsets (images, tokens + 1), rows of
// nodes counted from the start of columns and weights, which hold all images one after the other, the last offset
// repeated; columns ascend within a row.
struct sv_graph_arrays {
    int64_t *nodes, *offsets;
    int32_t *owner, *sizes, *columns;
    double* weights;
};

// features (images, tokens, channels), contiguous and finite; 1 ≤ neighbors < tokens - 1.
SV_EXPORT int sv_neighbor_graphs(const sv_graph_options* options, const double* features, sv_graphs** graphs);
SV_EXPORT int64_t sv_graphs_entries(const sv_graphs* graphs);
SV_EXPORT void sv_graphs_copy(const sv_graphs* graphs, const sv_graph_arrays* arrays);
SV_EXPORT void sv_graphs_free(sv_graphs* graphs);
