// With g = dL/dy the adjoint state runs backwards, adjoint_t = C_t g_t + decay_{t+1} adjoint_{t+1}; every gradient is
// then local. States are computed again, tile by tile and, along a path, chunk by chunk: a first walk keeps only the
// states at the chunks' starts, and scratch stays near the second-level cache however many tokens there are.
#include <algorithm>
#include <new>
#include <vector>

#include "elementary.h"
#include "scan.h"

namespace sv {
namespace {

constexpr int64_t widest = 64;
constexpr int64_t scratch_target = 1024 * 1024;  // bytes; measured: larger ones go past the caches, smaller ones restart

struct Chunks {
    int64_t length, count;  // the last may be shorter

    Chunks(int64_t tokens, int64_t states, int64_t real) {
        const int64_t most = std::max<int64_t>(scratch_target / (real * widest * (2 + 2 * states)), 16);
        count = std::max<int64_t>((tokens + most - 1) / most, 1);
        length = (tokens + count - 1) / count;
    }
};

// What a task keeps: an image's tokens and their gradients; of a chunk, per token, Δ and its slope, and per state the
// decay and h; of a path the states that chunks start from; of its images together, A and its gradient.
template <class Real>
struct Scratch {
    Real *x, *grad_y, *grad_x;  // (tokens, width)
    Real *step, *slope, *decay, *h, *starts, *adjoint;
    Real *A, *grad_A;  // (sets, states, width)

    static int64_t size(const sv_scan& s, const Chunks& chunks, int64_t width) {
        return width * (3 * s.tokens + chunks.length * (2 + 2 * s.states) + (chunks.count + 1 + 2 * s.sets) * s.states);
    }
    Scratch(Real* memory, const sv_scan& s, const Chunks& chunks, int64_t width) {
        const int64_t tokens = s.tokens, states = s.states;
        x = memory;
        grad_y = x + tokens * width;
        grad_x = grad_y + tokens * width;
        step = grad_x + tokens * width;
        slope = step + chunks.length * width;
        decay = slope + chunks.length * width;
        h = decay + chunks.length * states * width;
        starts = h + chunks.length * states * width;
        adjoint = starts + chunks.count * states * width;
        A = adjoint + states * width;
        grad_A = A + s.sets * states * width;
    }
};

struct Span {
    int64_t chunk, begin, end;
};

// Partial sums that tasks own alone: over channels (per tile) for B and C, over a group of images for A, D and bias.
template <class Real>
struct Partial {
    Real *B, *C;         // (tiles, images, sets, tokens, states)
    Real *A, *D, *bias;  // (groups, sets, channels[, states])
};

// A task's share: a tile of channels of some images.
struct Share {
    int64_t tile, first, width, group, begin, end;
};

// Everything one walk along a path touches, each at the tile's first channel.
template <class Real>
struct Walk {
    const Real* bias;
    Real* grad_delta;                // rows of `channels`
    Real *grad_B, *grad_C;           // (tokens, states)
    Real* grad_bias;                 // (width)
    const Real* A;                   // (states, width)
    Real* grad_A;
    Scratch<Real> kept;
};

template <int64_t width_if_fixed, bool decays, bool one_state, class Real, class Delta>
SV_INLINE void recompute_states(const sv_scan& s, const Path<Real, Delta>& path, const Walk<Real>& w, int64_t tile,
                                Span span) {
    const int64_t width = width_if_fixed ? width_if_fixed : tile, states = one_state ? 1 : s.states;
    const Real *before = w.kept.starts + span.chunk * states * width, *__restrict bias = w.bias;
    alignas(cache_line) Real z[widest];
    for (int64_t t = span.begin; t < span.end; ++t) {
        const int64_t kept = t - span.begin;
        if (t + lookahead < s.tokens) prefetch(path.delta + path.order[t + lookahead] * s.delta_token, width);
        const int64_t token = path.order[t];
        const Real* __restrict x = w.kept.x + token * width;
        const Delta* __restrict delta = path.delta + token * s.delta_token;
        Real *__restrict step = w.kept.step + kept * width, *__restrict slope = w.kept.slope + kept * width;
        // Short loops: a processor overlaps more of short chains than of long ones.
        for (int64_t c = 0; c < width; ++c) z[c] = decaying_exponential(-std::fabs(load(delta[c]) + bias[c]));
        for (int64_t c = 0; c < width; ++c) step[c] = positive_part(load(delta[c]) + bias[c]) + log_one_plus(z[c]);
        for (int64_t c = 0; c < width; ++c)
            slope[c] = (load(delta[c]) + bias[c] < Real(0) ? z[c] : Real(1)) / (Real(1) + z[c]);
        for (int64_t j = 0; j < states; ++j) {
            Real B_t = path.B[token * states + j];
            const Real *A = w.A + j * width, *before_j = before + j * width;
            Real* __restrict decay = w.kept.decay + (kept * states + j) * width;
            Real* __restrict h = w.kept.h + (kept * states + j) * width;
            for (int64_t c = 0; c < width; ++c) decay[c] = exponential_of<decays>(step[c] * A[c]);
            for (int64_t c = 0; c < width; ++c) h[c] = decay[c] * before_j[c] + step[c] * x[c] * B_t;
        }
        before = w.kept.h + kept * states * width;
    }
}

template <class Real>
SV_INLINE void look_back(const int64_t* order, int64_t t, int64_t channels, int64_t width, const Walk<Real>& w) {
    if (t >= lookahead) prefetch(w.grad_delta + order[t - lookahead] * channels, width);
}

// The walk back with one state per channel: everything of a channel in one loop.
template <int64_t width_if_fixed, bool fresh, class Real, class Delta>
SV_INLINE void walk_back_one_state(const sv_scan& s, const Path<Real, Delta>& path, const Walk<Real>& w,
                                   int64_t tile, Span span) {
    const int64_t width = width_if_fixed ? width_if_fixed : tile;
    const Real* __restrict A = w.A;
    Real *__restrict grad_bias = w.grad_bias, *__restrict grad_A = w.grad_A, *__restrict carried = w.kept.adjoint;
    for (int64_t t = span.end - 1; t >= span.begin; --t) {
        const int64_t kept = t - span.begin;
        look_back(path.order, t, s.channels, width, w);
        const int64_t token = path.order[t];
        const Real *__restrict x = w.kept.x + token * width, *__restrict g = w.kept.grad_y + token * width;
        const Real *__restrict step = w.kept.step + kept * width, *__restrict slope = w.kept.slope + kept * width;
        const Real *__restrict decay = w.kept.decay + kept * width, *__restrict h = w.kept.h + kept * width;
        const Real* __restrict before = kept ? h - width : w.kept.starts + span.chunk * width;
        Real* __restrict grad_x = w.kept.grad_x + token * width;
        Real* __restrict grad_delta = w.grad_delta + token * s.channels;
        const Real B = path.B[token], C = path.C[token];
        Real sum_B = 0, sum_C = 0;
#pragma omp simd reduction(+ : sum_B, sum_C)
        for (int64_t c = 0; c < width; ++c) {
            const Real x_t = x[c], adjoint = C * g[c] + carried[c], decayed = adjoint * decay[c];
            const Real exponent = decayed * before[c], through_B = adjoint * B;
            const Real raw = (through_B * x_t + exponent * A[c]) * slope[c];
            carried[c] = decayed;
            grad_A[c] += exponent * step[c];
            grad_x[c] += through_B * step[c];
            grad_delta[c] = fresh ? raw : grad_delta[c] + raw;
            grad_bias[c] += raw;
            sum_B += adjoint * (step[c] * x_t);
            sum_C += g[c] * h[c];
        }
        w.grad_B[token] += sum_B;
        w.grad_C[token] += sum_C;
    }
}

// `fresh`: no earlier path has written this parameter set's grad_delta.
template <bool fresh, class Real, class Delta>
SV_INLINE void walk_back(const sv_scan& s, const Path<Real, Delta>& path, const Walk<Real>& w, int64_t width,
                         Span span) {
    const int64_t states = s.states;
    alignas(cache_line) Real through_B[widest], through_A[widest];
    Real* __restrict grad_bias = w.grad_bias;
    for (int64_t t = span.end - 1; t >= span.begin; --t) {
        const int64_t kept = t - span.begin;
        look_back(path.order, t, s.channels, width, w);
        int64_t token = path.order[t];
        const Real *__restrict x = w.kept.x + token * width, *__restrict g = w.kept.grad_y + token * width;
        const Real *__restrict step = w.kept.step + kept * width, *__restrict slope = w.kept.slope + kept * width;
        for (int64_t j = 0; j < states; ++j) {
            Real B_t = path.B[token * states + j], C_t = path.C[token * states + j], sum_B = 0, sum_C = 0;
            const Real* __restrict decay = w.kept.decay + (kept * states + j) * width;
            const Real* __restrict h = w.kept.h + (kept * states + j) * width;
            const Real* __restrict before =
                kept ? h - states * width : w.kept.starts + (span.chunk * states + j) * width;
            const Real* __restrict A = w.A + j * width;
            // decay_{t+1} adjoint_{t+1} on entry, decay_t adjoint_t on exit
            Real *__restrict carried = w.kept.adjoint + j * width, *__restrict grad_A = w.grad_A + j * width;
            if (j == 0) {
#pragma omp simd reduction(+ : sum_B, sum_C)
                for (int64_t c = 0; c < width; ++c) {
                    Real adjoint = C_t * g[c] + carried[c];
                    carried[c] = adjoint * decay[c];
                    Real exponent = carried[c] * before[c];
                    grad_A[c] += exponent * step[c];
                    through_B[c] = adjoint * B_t;
                    through_A[c] = exponent * A[c];
                    sum_B += adjoint * (step[c] * x[c]);
                    sum_C += g[c] * h[c];
                }
            } else {
#pragma omp simd reduction(+ : sum_B, sum_C)
                for (int64_t c = 0; c < width; ++c) {
                    Real adjoint = C_t * g[c] + carried[c];
                    carried[c] = adjoint * decay[c];
                    Real exponent = carried[c] * before[c];
                    grad_A[c] += exponent * step[c];
                    through_B[c] += adjoint * B_t;
                    through_A[c] += exponent * A[c];
                    sum_B += adjoint * (step[c] * x[c]);
                    sum_C += g[c] * h[c];
                }
            }
            w.grad_B[token * states + j] += sum_B;
            w.grad_C[token * states + j] += sum_C;
        }
        Real* __restrict grad_x = w.kept.grad_x + token * width;
        Real* __restrict grad_delta = w.grad_delta + token * s.channels;
        for (int64_t c = 0; c < width; ++c) {
            Real raw = (through_B[c] * x[c] + through_A[c]) * slope[c];
            grad_x[c] += through_B[c] * step[c];
            grad_delta[c] = fresh ? raw : grad_delta[c] + raw;
            grad_bias[c] += raw;
        }
    }
}

template <int64_t width_if_fixed, bool decays, bool one_state, class Real, class Delta>
SV_INLINE void one_path(const sv_scan& s, const Path<Real, Delta>& path, const Walk<Real>& w, int64_t tile,
                        const Chunks& chunks, bool fresh) {
    const int64_t row = s.states * tile;
    auto span = [&](int64_t chunk) {
        return Span{chunk, chunk * chunks.length, std::min((chunk + 1) * chunks.length, s.tokens)};
    };
    std::fill_n(w.kept.starts, row, Real(0));
    for (int64_t chunk = 0; chunk + 1 < chunks.count; ++chunk) {
        recompute_states<width_if_fixed, decays, one_state>(s, path, w, tile, span(chunk));
        std::copy_n(w.kept.h + (chunks.length - 1) * row, row, w.kept.starts + (chunk + 1) * row);
    }
    std::fill_n(w.kept.adjoint, row, Real(0));
    for (int64_t chunk = chunks.count - 1; chunk >= 0; --chunk) {
        recompute_states<width_if_fixed, decays, one_state>(s, path, w, tile, span(chunk));
        if constexpr (one_state) {
            if (fresh)
                walk_back_one_state<width_if_fixed, true>(s, path, w, tile, span(chunk));
            else
                walk_back_one_state<width_if_fixed, false>(s, path, w, tile, span(chunk));
        } else {
            if (fresh)
                walk_back<true>(s, path, w, tile, span(chunk));
            else
                walk_back<false>(s, path, w, tile, span(chunk));
        }
    }
}

// D x_t does not depend on the order: the paths' shares in grad_x are one product, and paths of a set share grad_D.
template <class Real>
SV_INLINE void skip_gradients(const sv_scan& s, const Scratch<Real>& kept, Real* grad_D, int64_t first, int64_t width) {
    alignas(cache_line) Real D[widest], sum[widest] = {};
    sum_of_D(s, first, width, D);
    for (int64_t token = 0; token < s.tokens; ++token)
        for (int64_t c = 0; c < width; ++c) {
            kept.grad_x[token * width + c] = D[c] * kept.grad_y[token * width + c];
            sum[c] += kept.grad_y[token * width + c] * kept.x[token * width + c];
        }
    for (int64_t i = 0; i < s.paths; ++i)
        for (int64_t c = 0; c < width; ++c) grad_D[i * s.sets / s.paths * s.channels + c] += sum[c];
}

template <class Real, class X, class Delta>
SV_INLINE void backward_image(const sv_scan& s, const sv_scan_gradients& out, const Partial<Real>& sums,
                              const Share& share, int64_t image, const Chunks& chunks, const Scratch<Real>& kept,
                              bool decays) {
    const int64_t states = s.states, plane = s.tokens * s.channels, first = share.first, width = share.width;
    gather_tile(static_cast<const X*>(s.x) + image * s.x_image + first, s.x_token, s.tokens, width, kept.x);
    gather_tile(static_cast<const Real*>(out.grad_y) + image * plane + first, s.channels, s.tokens, width, kept.grad_y);
    skip_gradients(s, kept, sums.D + share.group * s.sets * s.channels + first, first, width);
    int64_t last_set = -1;
    for (int64_t i = 0; i < s.paths; ++i) {
        auto path = path_of<Real, Delta>(s, image, i, first);
        const int64_t row = path.set * s.channels + first;
        const int64_t sequence = ((share.tile * s.images + image) * s.sets + path.set) * s.tokens * states;
        const Walk<Real> walk{static_cast<const Real*>(s.bias) + row,
                              static_cast<Real*>(out.delta) + (path.set * s.images + image) * plane + first,
                              sums.B + sequence,
                              sums.C + sequence,
                              sums.bias + share.group * s.sets * s.channels + row,
                              kept.A + path.set * states * width,
                              kept.grad_A + path.set * states * width,
                              kept};
        const bool fresh = path.set != last_set;
        if (!decays)
            one_path<0, false, false>(s, path, walk, width, chunks, fresh);
        else if (states != 1)
            one_path<0, true, false>(s, path, walk, width, chunks, fresh);
        else if (width == 64)
            one_path<64, true, true>(s, path, walk, width, chunks, fresh);
        else if (width == 32)
            one_path<32, true, true>(s, path, walk, width, chunks, fresh);
        else
            one_path<0, true, true>(s, path, walk, width, chunks, fresh);
        last_set = path.set;
    }
    scatter_tile(kept.grad_x, s.tokens, width, static_cast<Real*>(out.x) + image * plane + first, s.channels);
}

template <class Real, class X, class Delta>
SV_INLINE void backward_share(const sv_scan& s, const sv_scan_gradients& out, const Partial<Real>& sums,
                              const Share& share, Real* memory) {
    const int64_t states = s.states, width = share.width;
    const Chunks chunks(s.tokens, states, sizeof(Real));
    const Scratch<Real> kept(memory, s, chunks, width);
    bool decays = true;
    for (int64_t set = 0; set < s.sets; ++set) {
        const Real* A = static_cast<const Real*>(s.A) + (set * s.channels + share.first) * states;
        for (int64_t j = 0; j < states; ++j)
            for (int64_t c = 0; c < width; ++c) {
                kept.A[(set * states + j) * width + c] = A[c * states + j];
                decays = decays && A[c * states + j] <= 0;
            }
    }
    std::fill_n(kept.grad_A, s.sets * states * width, Real(0));
    for (int64_t image = share.begin; image < share.end; ++image)
        backward_image<Real, X, Delta>(s, out, sums, share, image, chunks, kept, decays);
    for (int64_t set = 0; set < s.sets; ++set) {
        Real* grad_A = sums.A + ((share.group * s.sets + set) * s.channels + share.first) * states;
        for (int64_t j = 0; j < states; ++j)
            for (int64_t c = 0; c < width; ++c) grad_A[c * states + j] = kept.grad_A[(set * states + j) * width + c];
    }
}

template <class Real>
using Task = void (*)(const sv_scan&, const sv_scan_gradients&, const Partial<Real>&, const Share&, Real*);

#define SV_BACKWARD(name, Real, X, Delta)                                                          \
    SV_CLONES void name(const sv_scan& s, const sv_scan_gradients& out, const Partial<Real>& sums, \
                        const Share& share, Real* memory) {                                        \
        backward_share<Real, X, Delta>(s, out, sums, share, memory);                               \
    }
SV_BACKWARD(backward_float, float, float, float)
SV_BACKWARD(backward_half_delta, float, float, bfloat16)
SV_BACKWARD(backward_half_x, float, bfloat16, float)
SV_BACKWARD(backward_half, float, bfloat16, bfloat16)
SV_BACKWARD(backward_double, double, double, double)

// total[i] = sum over parts of part[i], in the order of the parts
template <class Real>
void add_up(const Real* parts, int64_t count, int64_t size, Real* total, int threads) {
    constexpr int64_t block = 512;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t begin = 0; begin < size; begin += block) {
        const int64_t end = std::min(begin + block, size);
        std::fill(total + begin, total + end, Real(0));
        for (int64_t part = 0; part < count; ++part)
            for (int64_t i = begin; i < end; ++i) total[i] += parts[part * size + i];
    }
}

// Sums over images are kept once per group, so that short paths do not spend their time on them. The groups depend on
// the number of images alone, and with them every result.
constexpr int64_t most_groups = 32;

template <class Real>
int backward(const sv_scan& s, const sv_scan_gradients& out, Task<Real> task_of_type) {
    const Tiles tiles = tiles_of(s.channels, widest);
    const Chunks chunks(s.tokens, s.states, sizeof(Real));
    const int64_t groups = std::min(s.images, most_groups), tasks = groups * tiles.count;
    const int64_t sequence = s.images * s.sets * s.tokens * s.states, row = s.sets * s.channels;
    try {
        std::vector<Real> over_tiles(2 * tiles.count * sequence), over_images(groups * row * (2 + s.states));
        Partial<Real> sums;
        sums.B = over_tiles.data();
        sums.C = sums.B + tiles.count * sequence;
        sums.A = over_images.data();
        sums.D = sums.A + groups * row * s.states;
        sums.bias = sums.D + groups * row;
        bool failed = false;
        const int64_t tokens = s.images * s.tokens * s.channels * int64_t(sizeof(Real));
        expect_large(out.x, tokens);
        expect_large(out.delta, tokens * s.sets);
#pragma omp parallel num_threads(s.threads)
        {
            const auto memory = scratch<Real>(Scratch<Real>::size(s, chunks, tiles.width));
            if (!memory) {
#pragma omp atomic write
                failed = true;
            }
#pragma omp for schedule(static)
            for (int64_t task = 0; task < tasks; ++task) {
                if (!memory) continue;
                const int64_t tile = task % tiles.count, first = tile * tiles.width, group = task / tiles.count;
                const int64_t width = std::min(tiles.width, s.channels - first);
                const int64_t begin = group * s.images / groups, end = (group + 1) * s.images / groups;
                task_of_type(s, out, sums, {tile, first, width, group, begin, end}, memory.get());
            }
        }
        if (failed) return SV_OUT_OF_MEMORY;
        add_up(sums.B, tiles.count, sequence, static_cast<Real*>(out.B), s.threads);
        add_up(sums.C, tiles.count, sequence, static_cast<Real*>(out.C), s.threads);
        add_up(sums.A, groups, row * s.states, static_cast<Real*>(out.A), s.threads);
        add_up(sums.D, groups, row, static_cast<Real*>(out.D), s.threads);
        add_up(sums.bias, groups, row, static_cast<Real*>(out.bias), s.threads);
        return SV_OK;
    } catch (const std::bad_alloc&) {
        return SV_OUT_OF_MEMORY;
    }
}

}  // namespace
}  // namespace sv

int sv_scan_backward(const sv_scan* scan, const sv_scan_gradients* gradients) {
    using namespace sv;
    const sv_scan& s = *scan;
    if (s.x_type == SV_FLOAT64) return backward<double>(s, *gradients, backward_double);
    bool half_x = s.x_type == SV_BFLOAT16, half_delta = s.delta_type == SV_BFLOAT16;
    Task<float> task = half_x ? (half_delta ? backward_half : backward_half_x) : half_delta ? backward_half_delta : backward_float;
    return backward<float>(s, *gradients, task);
}
