// The smallest eigenpairs of normalised graph Laplacians L = I − D^(-1/2) W D^(-1/2) of sparse graphs.
#pragma once

#include <cstdint>

#include "graph.h"

// `wanted` pairs are found to the accuracy of float64; those up to `count` well enough to judge whether the last wanted
// eigenvalue stands alone.
struct sv_eigen_options {
    int64_t images, tokens, wanted, count;
    double cluster;  // eigenvalues nearer than this are one eigenspace, whose vectors must all be accurate
    int32_t threads, reserved;
};

// The largest `wanted` this solver takes.
SV_EXPORT int64_t sv_most_eigenvectors();

// Graphs as sv_graphs_copy lays them out, every token with an edge. values and residuals (images, count), vectors
// (images, count, tokens), trivial (images, tokens), rounds (images): how many it took, negative where it failed.
SV_EXPORT int sv_smallest_eigenpairs(const sv_eigen_options* options, const sv_graph_arrays* graphs, double* values,
                                     double* vectors, double* residuals, double* trivial, int32_t* rounds);
