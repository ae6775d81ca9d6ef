#include <algorithm>
#include <vector>

#include "guard.h"
#include "scan_tile.h"

namespace sv {
namespace {

// The arrays of a task. State j of channel c is h[j * tile_width + c].
template <class Real>
struct Buffers {
    Real *A, *h, *bias;  // (states, tile_width), bias (tile_width)
    Real *x, *y;         // (tokens, width)

    static int64_t size(const sv_scan& s) { return tile_width * (2 * s.states + 1 + 2 * s.tokens); }
    Buffers(Real* memory, const sv_scan& s)
        : A(memory), h(A + s.states * tile_width), bias(h + s.states * tile_width), x(bias + tile_width),
          y(x + s.tokens * tile_width) {}
};

// One state per channel and A ≤ 0: the case of every VMamba. fixed_width is 0 if the width is not known at compile
// time.
template <int64_t fixed_width, class Real>
SV_INLINE void walk_one_state(const sv_scan& s, const Path<Real>& path, const Buffers<Real>& buffers, int64_t width) {
    if (fixed_width) width = fixed_width;
    const Real *__restrict A = buffers.A, *__restrict bias = buffers.bias;
    Real* __restrict h = buffers.h;
    alignas(cache_line) Real z[tile_width], step[tile_width], converted[tile_width];
    for (int64_t t = 0; t < s.tokens; ++t) {
        prefetch_delta(s, path, t, width);
        const int64_t token = path.order[t];
        const Real* __restrict delta = delta_row(path, token, width, converted);
        const Real *__restrict x = buffers.x + token * width, B = path.B[token], C = path.C[token];
        Real* __restrict y = buffers.y + token * width;
        // Three loops: the dependency chain of one channel takes about 150 cycles, and a processor overlaps more of the
        // shorter chains.
        for (int64_t c = 0; c < width; ++c) z[c] = decaying_exponential(-std::fabs(delta[c] + bias[c]));
        for (int64_t c = 0; c < width; ++c) step[c] = positive_part(delta[c] + bias[c]) + log_one_plus(z[c]);
        for (int64_t c = 0; c < width; ++c) {
            h[c] = decaying_exponential(step[c] * A[c]) * h[c] + (step[c] * x[c]) * B;
            y[c] += h[c] * C;
        }
    }
}

template <bool decays, class Real>
SV_INLINE void update_state(const Real* __restrict step, const Real* __restrict drive, const Real* __restrict A, Real B,
                            Real C, int64_t width, Real* __restrict h, Real* __restrict y) {
    for (int64_t c = 0; c < width; ++c) {
        h[c] = exponential_of<decays>(step[c] * A[c]) * h[c] + drive[c] * B;
        y[c] += h[c] * C;
    }
}

template <class Real, class Delta>
SV_INLINE void steps_and_drives(const Delta* __restrict delta, const Real* bias, const Real* __restrict x,
                                int64_t width, Real* __restrict step, Real* __restrict drive) {
    for (int64_t c = 0; c < width; ++c) {
        step[c] = softplus(load(delta[c]) + bias[c]);
        drive[c] = step[c] * x[c];
    }
}

// Any number of states. `decays`: no A is above 0.
template <class Real>
SV_INLINE void walk_states(const sv_scan& s, const Path<Real>& path, const Buffers<Real>& buffers, int64_t width,
                           bool decays) {
    alignas(cache_line) Real step[tile_width], drive[tile_width];
    for (int64_t t = 0; t < s.tokens; ++t) {
        prefetch_delta(s, path, t, width);
        const int64_t token = path.order[t];
        const char* delta = path.delta + token * path.delta_row;
        const Real* x = buffers.x + token * width;
        Real* y = buffers.y + token * width;
        if (path.delta_is_half)
            steps_and_drives(reinterpret_cast<const bfloat16*>(delta), buffers.bias, x, width, step, drive);
        else
            steps_and_drives(reinterpret_cast<const Real*>(delta), buffers.bias, x, width, step, drive);
        for (int64_t j = 0; j < s.states; ++j) {
            const Real *A = buffers.A + j * tile_width;
            const Real B = path.B[token * s.states + j], C = path.C[token * s.states + j];
            Real* h = buffers.h + j * tile_width;
            if (decays)
                update_state<true>(step, drive, A, B, C, width, h, y);
            else
                update_state<false>(step, drive, A, B, C, width, h, y);
        }
    }
}

// y = x · (sum of D over the paths). The paths add to this.
template <class Real>
SV_INLINE void start_with_skip(const sv_scan& s, const Buffers<Real>& buffers, int64_t first, int64_t width) {
    alignas(cache_line) Real D[tile_width];
    sum_of_D(s, first, width, D);
    for (int64_t token = 0; token < s.tokens; ++token)
        for (int64_t c = 0; c < width; ++c)
            buffers.y[token * width + c] = s.paths ? D[c] * buffers.x[token * width + c] : Real(0);
}

template <class Real>
SV_INLINE void forward_tile(const sv_scan& s, Real* y, int64_t image, int64_t first, int64_t width, Real* memory) {
    const Buffers<Real> buffers(memory, s);
    gather_x(s, image, first, width, buffers.x);
    start_with_skip(s, buffers, first, width);
    for (int64_t i = 0; i < s.paths; ++i) {
        const auto path = path_of<Real>(s, image, i, first);
        bool decays = true;
        for (int64_t c = 0; c < width; ++c) {
            int64_t channel = path.set * s.channels + first + c;
            buffers.bias[c] = static_cast<const Real*>(s.bias)[channel];
            for (int64_t j = 0; j < s.states; ++j) {
                Real A = static_cast<const Real*>(s.A)[channel * s.states + j];
                buffers.A[j * tile_width + c] = A;
                buffers.h[j * tile_width + c] = 0;
                decays = decays && A <= 0;
            }
        }
        if (!decays || s.states != 1)
            walk_states(s, path, buffers, width, decays);
        else if (width == 64)
            walk_one_state<64>(s, path, buffers, width);
        else if (width == 32)
            walk_one_state<32>(s, path, buffers, width);
        else
            walk_one_state<0>(s, path, buffers, width);
    }
    scatter_tile(buffers.y, s.tokens, width, y + image * s.tokens * s.channels + first, s.channels);
}

SV_CLONES void forward_task(const sv_scan& s, float* y, int64_t image, int64_t first, int64_t width, float* memory) {
    forward_tile(s, y, image, first, width, memory);
}

SV_CLONES void forward_task(const sv_scan& s, double* y, int64_t image, int64_t first, int64_t width, double* memory) {
    forward_tile(s, y, image, first, width, memory);
}

template <class Real>
int forward(const sv_scan& s, Real* y) {
    const int64_t tiles = tile_count(s), tasks = s.images * tiles;
    expect_large(y, s.images * s.tokens * s.channels * int64_t(sizeof(Real)));
    Failures failures;
#pragma omp parallel num_threads(s.threads)
    {
        Scratch<Real> memory;
        failures.catch_in([&] { memory = allocate_scratch<Real>(Buffers<Real>::size(s)); });
#pragma omp for schedule(static)
        for (int64_t task = 0; task < tasks; ++task) {
            if (!memory) continue;
            const int64_t first = task % tiles * tile_width, width = std::min(tile_width, s.channels - first);
            failures.catch_in([&] { forward_task(s, y, task / tiles, first, width, memory.get()); });
        }
    }
    failures.rethrow();
    return SV_OK;
}

int check_orders(const int64_t* orders, int64_t rows, int64_t tokens) {
    std::vector<int64_t> last_row(tokens, -1);  // the last row in which each token was seen
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t t = 0; t < tokens; ++t) {
            const int64_t token = orders[row * tokens + t];
            if (token < 0 || token >= tokens || last_row[token] == row) return SV_BAD_INPUT;
            last_row[token] = row;
        }
    return SV_OK;
}

}  // namespace
}  // namespace sv

int sv_check_orders(const int64_t* orders, int64_t rows, int64_t tokens) {
    return sv::guarded([&] { return sv::check_orders(orders, rows, tokens); });
}

int sv_scan_forward(const sv_scan* scan, void* y) {
    return sv::guarded([&] {
        return scan->x_type == SV_FLOAT64 ? sv::forward(*scan, static_cast<double*>(y))
                                          : sv::forward(*scan, static_cast<float*>(y));
    });
}
