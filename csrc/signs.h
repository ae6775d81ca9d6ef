// Signs of eigenvectors by what the tokens show: see canonical.py, whose `_signs` this is.
#pragma once

#include <cstdint>

#include "platform.h"

struct sv_sign_options {
    int64_t images, tokens, count;
    int64_t vectors_image;      // elements from one image's vectors to the next one's
    double significant, clear;  // shares of a probe that lie in the eigenspace
    int32_t degree, threads;    // the highest degree of the probes
};

// vectors (images, count, tokens), trivial and content (images, tokens), squared_radii (tokens), node_order (images,
// tokens), signs (images, count).
SV_EXPORT int sv_eigenvector_signs(const sv_sign_options* options, const double* vectors, const double* trivial,
                                   const double* content, const int64_t* squared_radii, const int64_t* node_order,
                                   double* signs);
