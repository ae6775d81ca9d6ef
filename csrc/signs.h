// Signs of eigenvectors from the content of the tokens: the same signs as signs_by_probes in ops/spectral/canonical.py.
#pragma once

#include <cstdint>

#include "platform.h"

struct sv_sign_options {
    int64_t images, tokens, count;
    int64_t vectors_image;      // elements between the vectors of one image and those of the next
    double significant, clear;  // thresholds on the projection of a probe onto the vector
    int32_t degree, threads;    // the highest degree of the probes
};

// vectors (images, count, tokens), trivial and content (images, tokens), squared_radii (tokens), node_order (images,
// tokens), signs (images, count).
SV_EXPORT int sv_eigenvector_signs(const sv_sign_options* options, const double* vectors, const double* trivial,
                                   const double* content, const int64_t* squared_radii, const int64_t* node_order,
                                   double* signs);
