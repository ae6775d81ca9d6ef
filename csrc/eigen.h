// The smallest eigenpairs of normalized Laplacians L = I − D^(-1/2) W D^(-1/2) of sparse graphs.
#pragma once

#include <cstdint>

#include "graph.h"

// The first `wanted` pairs are computed to the accuracy of float64. The others, up to `count`, are accurate enough to
// tell whether the last wanted eigenvalue is separate from the next.
struct sv_eigen_options {
    int64_t images, tokens, wanted, count;
    double cluster;  // eigenvalues closer than this form one eigenspace, all of whose vectors must be accurate
    int32_t threads, reserved;
};

// The largest `wanted` that the solver accepts.
SV_EXPORT int64_t sv_most_eigenvectors();

// Graphs in the layout of sv_graphs_copy; every token has an edge. values and residuals (images, count), vectors
// (images, count, tokens), trivial (images, tokens), rounds (images): the number of rounds, negative if the solver
// failed, products (images): how often it multiplied the matrix with a block.
SV_EXPORT int sv_smallest_eigenpairs(const sv_eigen_options* options, const sv_graph_arrays* graphs, double* values,
                                     double* vectors, double* residuals, double* trivial, int32_t* rounds,
                                     int32_t* products);
