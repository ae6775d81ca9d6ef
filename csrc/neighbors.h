// The nearest neighbors of all tokens of an image, and the mean distance of all pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "distances.h"
#include "graph.h"

namespace sv {

struct Edge {
    int32_t from, to;
    double squared;
};

struct Neighborhood {
    std::vector<Edge> edges;  // from each token to its nearest neighbors, including ties, sorted by both ends
    double mean;              // the mean distance over all pairs
};

// The result does not depend on the number of threads.
Neighborhood nearest_neighbors(const Tokens& tokens, const sv_graph_options& options, int threads);

}  // namespace sv
