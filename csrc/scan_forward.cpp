#include <algorithm>
#include <new>
#include <vector>

#include "elementary.h"
#include "scan.h"

namespace sv {
namespace {

constexpr int64_t widest = 64;

// State j of channel c is h[j * widest + c].
template <class Real>
struct Parameters {
    Real *A, *h;  // (states, widest)
    alignas(cache_line) Real bias[widest];
};

template <class Real, class X, class Delta>
SV_INLINE void look_ahead(const sv_scan& s, const Path<Real, X, Delta>& path, int64_t t, int64_t width, const Real* y) {
    if (t + lookahead >= s.tokens) return;
    const int64_t ahead = path.order[t + lookahead];
    prefetch(path.delta + ahead * s.delta_token, width);
    prefetch(path.x + ahead * s.x_token, width);
    prefetch(y + ahead * s.channels, width);
}

// One state per channel and no A above zero: the case of every published vision model.
template <int64_t width_if_fixed, class Real, class X, class Delta>
SV_INLINE void walk_one_state(const sv_scan& s, const Path<Real, X, Delta>& path, const Parameters<Real>& parameters,
                              int64_t tile, Real* y) {
    const int64_t width = width_if_fixed ? width_if_fixed : tile;
    const Real *__restrict A = parameters.A, *__restrict bias = parameters.bias;
    Real* __restrict h = parameters.h;
    alignas(cache_line) Real z[widest], step[widest];
    for (int64_t t = 0; t < s.tokens; ++t) {
        look_ahead(s, path, t, width, y);
        int64_t token = path.order[t];
        const X* __restrict x = path.x + token * s.x_token;
        const Delta* __restrict delta = path.delta + token * s.delta_token;
        Real *__restrict y_t = y + token * s.channels, B = path.B[token], C = path.C[token];
        // In three loops: the chain of one channel is some 150 cycles long, and a processor overlaps more short ones.
        for (int64_t c = 0; c < width; ++c) z[c] = decaying_exponential(-std::fabs(load(delta[c]) + bias[c]));
        for (int64_t c = 0; c < width; ++c) step[c] = positive_part(load(delta[c]) + bias[c]) + log_one_plus(z[c]);
        for (int64_t c = 0; c < width; ++c) {
            h[c] = decaying_exponential(step[c] * A[c]) * h[c] + (step[c] * load(x[c])) * B;
            y_t[c] += h[c] * C;
        }
    }
}

template <class Real, class X, class Delta>
SV_INLINE void walk_states(const sv_scan& s, const Path<Real, X, Delta>& path, const Parameters<Real>& parameters,
                           int64_t width, Real* y) {
    alignas(cache_line) Real step[widest], drive[widest];
    for (int64_t t = 0; t < s.tokens; ++t) {
        look_ahead(s, path, t, width, y);
        int64_t token = path.order[t];
        const X* __restrict x = path.x + token * s.x_token;
        const Delta* __restrict delta = path.delta + token * s.delta_token;
        Real* __restrict y_t = y + token * s.channels;
        for (int64_t c = 0; c < width; ++c) {
            step[c] = softplus(load(delta[c]) + parameters.bias[c]);
            drive[c] = step[c] * load(x[c]);
        }
        for (int64_t j = 0; j < s.states; ++j) {
            const Real *__restrict A = parameters.A + j * widest;
            Real *__restrict h = parameters.h + j * widest, B = path.B[token * s.states + j], C = path.C[token * s.states + j];
            for (int64_t c = 0; c < width; ++c) {
                h[c] = exponential(step[c] * A[c]) * h[c] + drive[c] * B;
                y_t[c] += h[c] * C;
            }
        }
    }
}

// y = x · (sum of D over the paths): the paths add to this.
template <class Real, class X>
SV_INLINE void start_with_skip(const sv_scan& s, const X* x, Real* y, int64_t first, int64_t width) {
    alignas(cache_line) Real D[widest] = {};
    for (int64_t i = 0; i < s.paths; ++i)
        for (int64_t c = 0; c < width; ++c)
            D[c] += static_cast<const Real*>(s.D)[i * s.sets / s.paths * s.channels + first + c];
    for (int64_t token = 0; token < s.tokens; ++token)
        for (int64_t c = 0; c < width; ++c) y[token * s.channels + c] = s.paths ? D[c] * load(x[token * s.x_token + c]) : Real(0);
}

template <class Real, class X, class Delta>
SV_INLINE void forward_tile(const sv_scan& s, Real* y, int64_t image, int64_t first, int64_t width, Real* scratch) {
    y += image * s.tokens * s.channels + first;
    start_with_skip<Real>(s, static_cast<const X*>(s.x) + image * s.x_image + first, y, first, width);
    Parameters<Real> parameters{scratch, scratch + s.states * widest, {}};
    for (int64_t i = 0; i < s.paths; ++i) {
        auto path = path_of<Real, X, Delta>(s, image, i, first);
        bool decays = true;
        for (int64_t c = 0; c < width; ++c) {
            int64_t channel = path.set * s.channels + first + c;
            parameters.bias[c] = static_cast<const Real*>(s.bias)[channel];
            for (int64_t j = 0; j < s.states; ++j) {
                Real A = static_cast<const Real*>(s.A)[channel * s.states + j];
                parameters.A[j * widest + c] = A;
                parameters.h[j * widest + c] = 0;
                decays = decays && A <= 0;
            }
        }
        if (s.states != 1 || !decays)
            walk_states(s, path, parameters, width, y);
        else if (width == 64)
            walk_one_state<64>(s, path, parameters, width, y);
        else if (width == 32)
            walk_one_state<32>(s, path, parameters, width, y);
        else
            walk_one_state<0>(s, path, parameters, width, y);
    }
}

template <class Real>
using Tile = void (*)(const sv_scan&, Real*, int64_t, int64_t, int64_t, Real*);

#define SV_FORWARD(name, Real, X, Delta)                                                                      \
    SV_CLONES void name(const sv_scan& s, Real* y, int64_t image, int64_t first, int64_t width, Real* work) { \
        forward_tile<Real, X, Delta>(s, y, image, first, width, work);                                        \
    }
SV_FORWARD(forward_float, float, float, float)
SV_FORWARD(forward_half_delta, float, float, bfloat16)
SV_FORWARD(forward_half_x, float, bfloat16, float)
SV_FORWARD(forward_half, float, bfloat16, bfloat16)
SV_FORWARD(forward_double, double, double, double)

template <class Real>
int forward(const sv_scan& s, Real* y, Tile<Real> tile) {
    Tiles tiles = tiles_of(s.channels, widest);
    int64_t tasks = s.images * tiles.count;
    bool failed = false;
#pragma omp parallel num_threads(s.threads)
    {
        std::vector<Real> scratch;
        try {
            scratch.resize(2 * s.states * widest);
        } catch (...) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(static)
        for (int64_t task = 0; task < tasks; ++task) {
            if (scratch.empty()) continue;
            int64_t first = task % tiles.count * tiles.width;
            tile(s, y, task / tiles.count, first, std::min(tiles.width, s.channels - first), scratch.data());
        }
    }
    return failed ? SV_OUT_OF_MEMORY : SV_OK;
}

}  // namespace
}  // namespace sv

int sv_check_orders(const int64_t* orders, int64_t rows, int64_t tokens) {
    try {
        std::vector<int64_t> seen(tokens, -1);  // in which row a token was last seen
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t t = 0; t < tokens; ++t) {
                int64_t token = orders[row * tokens + t];
                if (token < 0 || token >= tokens || seen[token] == row) return SV_BAD_INPUT;
                seen[token] = row;
            }
        return SV_OK;
    } catch (const std::bad_alloc&) {
        return SV_OUT_OF_MEMORY;
    }
}

int sv_scan_forward(const sv_scan* scan, void* y) {
    using namespace sv;
    const sv_scan& s = *scan;
    if (s.x_type == SV_FLOAT64) return forward<double>(s, static_cast<double*>(y), forward_double);
    bool half_x = s.x_type == SV_BFLOAT16, half_delta = s.delta_type == SV_BFLOAT16;
    Tile<float> tile = half_x ? (half_delta ? forward_half : forward_half_x) : half_delta ? forward_half_delta : forward_float;
    return forward<float>(s, static_cast<float*>(y), tile);
}
