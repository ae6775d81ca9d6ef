#include <algorithm>
#include <new>
#include <vector>

#include "elementary.h"
#include "scan.h"

namespace sv {
namespace {

constexpr int64_t widest = 64;

// What a task works in. State j of channel c is h[j * widest + c].
template <class Real>
struct Scratch {
    Real *A, *h, *bias;  // (states, widest), bias (widest)
    Real *x, *y;         // (tokens, width)

    static int64_t size(const sv_scan& s) { return widest * (2 * s.states + 1 + 2 * s.tokens); }
    Scratch(Real* memory, const sv_scan& s)
        : A(memory), h(A + s.states * widest), bias(h + s.states * widest), x(bias + widest), y(x + s.tokens * widest) {}
};

template <class Real, class Delta>
SV_INLINE void look_ahead(const sv_scan& s, const Path<Real, Delta>& path, int64_t t, int64_t width) {
    if (t + lookahead < s.tokens) prefetch(path.delta + path.order[t + lookahead] * s.delta_token, width);
}

// One state per channel and no A above zero: the case of every VMamba.
template <int64_t width_if_fixed, class Real, class Delta>
SV_INLINE void walk_one_state(const sv_scan& s, const Path<Real, Delta>& path, const Scratch<Real>& own, int64_t tile) {
    const int64_t width = width_if_fixed ? width_if_fixed : tile;
    const Real *__restrict A = own.A, *__restrict bias = own.bias;
    Real* __restrict h = own.h;
    alignas(cache_line) Real z[widest], step[widest];
    for (int64_t t = 0; t < s.tokens; ++t) {
        look_ahead(s, path, t, width);
        const int64_t token = path.order[t];
        const Delta* __restrict delta = path.delta + token * s.delta_token;
        const Real *__restrict x = own.x + token * width, B = path.B[token], C = path.C[token];
        Real* __restrict y = own.y + token * width;
        // In three loops: the chain of one channel is some 150 cycles long, and a processor overlaps more short ones.
        for (int64_t c = 0; c < width; ++c) z[c] = decaying_exponential(-std::fabs(load(delta[c]) + bias[c]));
        for (int64_t c = 0; c < width; ++c) step[c] = positive_part(load(delta[c]) + bias[c]) + log_one_plus(z[c]);
        for (int64_t c = 0; c < width; ++c) {
            h[c] = decaying_exponential(step[c] * A[c]) * h[c] + (step[c] * x[c]) * B;
            y[c] += h[c] * C;
        }
    }
}

template <bool decays, class Real, class Delta>
SV_INLINE void walk_states(const sv_scan& s, const Path<Real, Delta>& path, const Scratch<Real>& own, int64_t width) {
    alignas(cache_line) Real step[widest], drive[widest];
    for (int64_t t = 0; t < s.tokens; ++t) {
        look_ahead(s, path, t, width);
        const int64_t token = path.order[t];
        const Delta* __restrict delta = path.delta + token * s.delta_token;
        const Real* __restrict x = own.x + token * width;
        Real* __restrict y = own.y + token * width;
        for (int64_t c = 0; c < width; ++c) {
            step[c] = softplus(load(delta[c]) + own.bias[c]);
            drive[c] = step[c] * x[c];
        }
        for (int64_t j = 0; j < s.states; ++j) {
            const Real *__restrict A = own.A + j * widest;
            Real *__restrict h = own.h + j * widest, B = path.B[token * s.states + j], C = path.C[token * s.states + j];
            for (int64_t c = 0; c < width; ++c) {
                h[c] = exponential_of<decays>(step[c] * A[c]) * h[c] + drive[c] * B;
                y[c] += h[c] * C;
            }
        }
    }
}

// y = x · (sum of D over the paths): the paths add to this.
template <class Real>
SV_INLINE void start_with_skip(const sv_scan& s, const Scratch<Real>& own, int64_t first, int64_t width) {
    alignas(cache_line) Real D[widest];
    sum_of_D(s, first, width, D);
    for (int64_t token = 0; token < s.tokens; ++token)
        for (int64_t c = 0; c < width; ++c)
            own.y[token * width + c] = s.paths ? D[c] * own.x[token * width + c] : Real(0);
}

template <class Real, class X, class Delta>
SV_INLINE void forward_tile(const sv_scan& s, Real* y, int64_t image, int64_t first, int64_t width, Real* memory) {
    const Scratch<Real> own(memory, s);
    gather_tile(static_cast<const X*>(s.x) + image * s.x_image + first, s.x_token, s.tokens, width, own.x);
    start_with_skip(s, own, first, width);
    for (int64_t i = 0; i < s.paths; ++i) {
        const auto path = path_of<Real, Delta>(s, image, i, first);
        bool decays = true;
        for (int64_t c = 0; c < width; ++c) {
            int64_t channel = path.set * s.channels + first + c;
            own.bias[c] = static_cast<const Real*>(s.bias)[channel];
            for (int64_t j = 0; j < s.states; ++j) {
                Real A = static_cast<const Real*>(s.A)[channel * s.states + j];
                own.A[j * widest + c] = A;
                own.h[j * widest + c] = 0;
                decays = decays && A <= 0;
            }
        }
        if (!decays)
            walk_states<false>(s, path, own, width);
        else if (s.states != 1)
            walk_states<true>(s, path, own, width);
        else if (width == 64)
            walk_one_state<64>(s, path, own, width);
        else if (width == 32)
            walk_one_state<32>(s, path, own, width);
        else
            walk_one_state<0>(s, path, own, width);
    }
    scatter_tile(own.y, s.tokens, width, y + image * s.tokens * s.channels + first, s.channels);
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
    expect_large(y, s.images * s.tokens * s.channels * int64_t(sizeof(Real)));
#pragma omp parallel num_threads(s.threads)
    {
        const auto memory = scratch<Real>(Scratch<Real>::size(s));
        if (!memory) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(static)
        for (int64_t task = 0; task < tasks; ++task) {
            if (!memory) continue;
            int64_t first = task % tiles.count * tiles.width;
            tile(s, y, task / tiles.count, first, std::min(tiles.width, s.channels - first), memory.get());
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
