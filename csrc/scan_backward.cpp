// With g = dL/dy, the adjoint state runs backward: adjoint_t = C_t g_t + decay_{t+1} adjoint_{t+1}. Every gradient is
// then local to a token. States are recomputed tile by tile and, along a path, chunk by chunk: a first pass stores only
// the states at the starts of the chunks. Scratch memory stays near the size of the second-level cache for any number
// of tokens.
#include <algorithm>
#include <vector>

#include "guard.h"
#include "scan_tile.h"

namespace sv {
namespace {

// Bytes. Measured: larger chunks exceed the caches, smaller ones restart too often.
constexpr int64_t chunk_bytes = 1024 * 1024;

struct Chunks {
    int64_t length, count;  // the last chunk may be shorter

    Chunks(int64_t tokens, int64_t states, int64_t real) {
        const int64_t longest = std::max<int64_t>(chunk_bytes / (real * tile_width * (2 + 2 * states)), 16);
        count = std::max<int64_t>((tokens + longest - 1) / longest, 1);
        length = (tokens + count - 1) / count;
    }
};

struct Chunk {
    int64_t index, begin, end;  // tokens from begin to end along the path
};

// The arrays of a task.
template <class Real>
struct Buffers {
    Real *x, *grad_y, *grad_x;  // of an image, (tokens, width)
    Real *step, *slope;         // of a chunk: Δ and its derivative, (chunk length, width)
    Real *decay, *h;            // of a chunk, (chunk length, states, width)
    Real *starts;               // of a path: the states before each chunk, (chunks, states, width)
    Real *adjoint;              // of a path, (states, width)
    Real *A, *grad_A;           // of all images of the task, (sets, states, width)

    static int64_t size(const sv_scan& s, const Chunks& chunks) {
        const int64_t chunk = chunks.length * (2 + 2 * s.states);
        return tile_width * (3 * s.tokens + chunk + (chunks.count + 1 + 2 * s.sets) * s.states);
    }
    Buffers(Real* memory, const sv_scan& s, const Chunks& chunks, int64_t width) {
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

// Partial sums, each written by one task: over channels (per tile) for B and C, over a group of images for A, D and
// bias.
template <class Real>
struct Partial {
    Real *B, *C;         // (tiles, images, sets, tokens, states)
    Real *A, *D, *bias;  // (groups, sets, channels[, states])
};

// A tile of channels of the images from begin to end.
struct Task {
    int64_t tile, first, width, group, begin, end;
};

// The arrays of a walk along a path, at the first channel of the tile.
template <class Real>
struct Walk {
    const Real* bias;
    Real* grad_delta;       // rows of `channels`
    Real *grad_B, *grad_C;  // (tokens, states)
    Real* grad_bias;        // (width)
    const Real* A;          // (states, width)
    Real* grad_A;
    Buffers<Real> buffers;
    bool overwrite;  // no earlier path wrote grad_delta of this parameter set
};

template <bool decays, class Real>
SV_INLINE void decay_of_step(const Real* step, const Real* A, int64_t width, Real* __restrict decay) {
    for (int64_t c = 0; c < width; ++c) decay[c] = exponential_of<decays>(step[c] * A[c]);
}

// fixed_width is 0 if the width is not known at compile time. One state implies `decays`.
template <int64_t fixed_width, bool one_state, class Real>
SV_INLINE void recompute_states(const sv_scan& s, const Path<Real>& path, const Walk<Real>& w, int64_t width,
                                Chunk chunk, bool decays) {
    if (fixed_width) width = fixed_width;
    const int64_t states = one_state ? 1 : s.states;
    const Real *before = w.buffers.starts + chunk.index * states * width, *__restrict bias = w.bias;
    alignas(cache_line) Real z[tile_width], converted[tile_width];
    for (int64_t t = chunk.begin; t < chunk.end; ++t) {
        const int64_t i = t - chunk.begin, token = path.order[t];
        prefetch_delta(s, path, t, width);
        const Real* __restrict x = w.buffers.x + token * width;
        const Real* __restrict delta = delta_row(path, token, width, converted);
        Real *__restrict step = w.buffers.step + i * width, *__restrict slope = w.buffers.slope + i * width;
        // Several loops: a processor overlaps more of the shorter dependency chains.
        for (int64_t c = 0; c < width; ++c) z[c] = decaying_exponential(-std::fabs(delta[c] + bias[c]));
        for (int64_t c = 0; c < width; ++c) step[c] = positive_part(delta[c] + bias[c]) + log_one_plus(z[c]);
        for (int64_t c = 0; c < width; ++c)
            slope[c] = (delta[c] + bias[c] < Real(0) ? z[c] : Real(1)) / (Real(1) + z[c]);
        for (int64_t j = 0; j < states; ++j) {
            const Real B = path.B[token * states + j];
            const Real *A = w.A + j * width, *before_j = before + j * width;
            Real* __restrict decay = w.buffers.decay + (i * states + j) * width;
            Real* __restrict h = w.buffers.h + (i * states + j) * width;
            if (one_state || decays)
                decay_of_step<true>(step, A, width, decay);
            else
                decay_of_step<false>(step, A, width, decay);
            for (int64_t c = 0; c < width; ++c) h[c] = decay[c] * before_j[c] + step[c] * x[c] * B;
        }
        before = w.buffers.h + i * states * width;
    }
}

template <class Real>
SV_INLINE void prefetch_grad_delta(const sv_scan& s, const Path<Real>& path, const Walk<Real>& w, int64_t t,
                                   int64_t width) {
    if (t >= lookahead)
        prefetch(w.grad_delta + path.order[t - lookahead] * s.channels, width * int64_t(sizeof(Real)));
}

// One state per channel: all gradients of a channel in one loop.
template <int64_t fixed_width, bool overwrite, class Real>
SV_INLINE void walk_back_one_state(const sv_scan& s, const Path<Real>& path, const Walk<Real>& w, int64_t width,
                                   Chunk chunk) {
    if (fixed_width) width = fixed_width;
    const Real* __restrict A = w.A;
    Real *__restrict grad_bias = w.grad_bias, *__restrict grad_A = w.grad_A, *__restrict carried = w.buffers.adjoint;
    for (int64_t t = chunk.end - 1; t >= chunk.begin; --t) {
        const int64_t i = t - chunk.begin, token = path.order[t];
        prefetch_grad_delta(s, path, w, t, width);
        const Real *__restrict x = w.buffers.x + token * width, *__restrict g = w.buffers.grad_y + token * width;
        const Real *__restrict step = w.buffers.step + i * width, *__restrict slope = w.buffers.slope + i * width;
        const Real *__restrict decay = w.buffers.decay + i * width, *__restrict h = w.buffers.h + i * width;
        const Real* __restrict before = i ? h - width : w.buffers.starts + chunk.index * width;
        Real* __restrict grad_x = w.buffers.grad_x + token * width;
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
            grad_delta[c] = overwrite ? raw : grad_delta[c] + raw;
            grad_bias[c] += raw;
            sum_B += adjoint * (step[c] * x_t);
            sum_C += g[c] * h[c];
        }
        w.grad_B[token] += sum_B;
        w.grad_C[token] += sum_C;
    }
}

template <bool overwrite, class Real>
SV_INLINE void add_token_gradients(const Real* __restrict through_A, const Real* __restrict through_B,
                                   const Real* __restrict x, const Real* __restrict step, const Real* __restrict slope,
                                   int64_t width, Real* __restrict grad_x, Real* __restrict grad_delta,
                                   Real* __restrict grad_bias) {
    for (int64_t c = 0; c < width; ++c) {
        const Real raw = (through_B[c] * x[c] + through_A[c]) * slope[c];
        grad_x[c] += through_B[c] * step[c];
        grad_delta[c] = overwrite ? raw : grad_delta[c] + raw;
        grad_bias[c] += raw;
    }
}

// Any number of states.
template <class Real>
SV_INLINE void walk_back(const sv_scan& s, const Path<Real>& path, const Walk<Real>& w, int64_t width, Chunk chunk) {
    const int64_t states = s.states;
    alignas(cache_line) Real through_B[tile_width], through_A[tile_width];
    for (int64_t t = chunk.end - 1; t >= chunk.begin; --t) {
        const int64_t i = t - chunk.begin, token = path.order[t];
        prefetch_grad_delta(s, path, w, t, width);
        const Real *__restrict x = w.buffers.x + token * width, *__restrict g = w.buffers.grad_y + token * width;
        const Real *__restrict step = w.buffers.step + i * width, *__restrict slope = w.buffers.slope + i * width;
        for (int64_t j = 0; j < states; ++j) {
            Real B = path.B[token * states + j], C = path.C[token * states + j], sum_B = 0, sum_C = 0;
            const Real* __restrict decay = w.buffers.decay + (i * states + j) * width;
            const Real* __restrict h = w.buffers.h + (i * states + j) * width;
            const Real* __restrict before =
                i ? h - states * width : w.buffers.starts + (chunk.index * states + j) * width;
            const Real* __restrict A = w.A + j * width;
            // decay_{t+1} adjoint_{t+1} before the loop, decay_t adjoint_t after it
            Real *__restrict carried = w.buffers.adjoint + j * width, *__restrict grad_A = w.grad_A + j * width;
            if (j == 0) {
#pragma omp simd reduction(+ : sum_B, sum_C)
                for (int64_t c = 0; c < width; ++c) {
                    Real adjoint = C * g[c] + carried[c];
                    carried[c] = adjoint * decay[c];
                    Real exponent = carried[c] * before[c];
                    grad_A[c] += exponent * step[c];
                    through_B[c] = adjoint * B;
                    through_A[c] = exponent * A[c];
                    sum_B += adjoint * (step[c] * x[c]);
                    sum_C += g[c] * h[c];
                }
            } else {
#pragma omp simd reduction(+ : sum_B, sum_C)
                for (int64_t c = 0; c < width; ++c) {
                    Real adjoint = C * g[c] + carried[c];
                    carried[c] = adjoint * decay[c];
                    Real exponent = carried[c] * before[c];
                    grad_A[c] += exponent * step[c];
                    through_B[c] += adjoint * B;
                    through_A[c] += exponent * A[c];
                    sum_B += adjoint * (step[c] * x[c]);
                    sum_C += g[c] * h[c];
                }
            }
            w.grad_B[token * states + j] += sum_B;
            w.grad_C[token * states + j] += sum_C;
        }
        Real *grad_x = w.buffers.grad_x + token * width, *grad_delta = w.grad_delta + token * s.channels;
        if (w.overwrite)
            add_token_gradients<true>(through_A, through_B, x, step, slope, width, grad_x, grad_delta, w.grad_bias);
        else
            add_token_gradients<false>(through_A, through_B, x, step, slope, width, grad_x, grad_delta, w.grad_bias);
    }
}

template <int64_t fixed_width, bool one_state, class Real>
SV_INLINE void backward_path(const sv_scan& s, const Path<Real>& path, const Walk<Real>& w, int64_t width,
                             const Chunks& chunks, bool decays) {
    const int64_t row = s.states * width, last = chunks.count - 1;
    std::fill_n(w.buffers.starts, row, Real(0));
    std::fill_n(w.buffers.adjoint, row, Real(0));
    // Forward over all chunks but the last to find the states they start from, then backward over all of them. One
    // loop, so that recompute_states is compiled once.
    for (int64_t pass = 0; pass <= 2 * last; ++pass) {
        const int64_t index = pass < last ? pass : 2 * last - pass;
        const Chunk chunk{index, index * chunks.length, std::min((index + 1) * chunks.length, s.tokens)};
        recompute_states<fixed_width, one_state>(s, path, w, width, chunk, decays);
        if (pass < last) {
            std::copy_n(w.buffers.h + (chunks.length - 1) * row, row, w.buffers.starts + (index + 1) * row);
            continue;
        }
        if constexpr (!one_state)
            walk_back(s, path, w, width, chunk);
        else if (w.overwrite)
            walk_back_one_state<fixed_width, true>(s, path, w, width, chunk);
        else
            walk_back_one_state<fixed_width, false>(s, path, w, width, chunk);
    }
}

// D x_t does not depend on the order, so all paths together add one product to grad_x, and paths of a set share grad_D.
template <class Real>
SV_INLINE void skip_gradients(const sv_scan& s, const Buffers<Real>& buffers, Real* grad_D, int64_t first,
                              int64_t width) {
    alignas(cache_line) Real D[tile_width], sum[tile_width] = {};
    sum_of_D(s, first, width, D);
    for (int64_t token = 0; token < s.tokens; ++token)
        for (int64_t c = 0; c < width; ++c) {
            buffers.grad_x[token * width + c] = D[c] * buffers.grad_y[token * width + c];
            sum[c] += buffers.grad_y[token * width + c] * buffers.x[token * width + c];
        }
    for (int64_t i = 0; i < s.paths; ++i)
        for (int64_t c = 0; c < width; ++c) grad_D[i * s.sets / s.paths * s.channels + c] += sum[c];
}

template <class Real>
SV_INLINE void backward_image(const sv_scan& s, const sv_scan_gradients& out, const Partial<Real>& sums,
                              const Task& task, int64_t image, const Chunks& chunks, const Buffers<Real>& buffers,
                              bool decays) {
    const int64_t states = s.states, plane = s.tokens * s.channels, first = task.first, width = task.width;
    gather_x(s, image, first, width, buffers.x);
    const Real* grad_y = static_cast<const Real*>(out.grad_y) + image * plane + first;
    gather_tile(grad_y, s.channels, s.tokens, width, buffers.grad_y);
    skip_gradients(s, buffers, sums.D + task.group * s.sets * s.channels + first, first, width);
    int64_t last_set = -1;
    for (int64_t i = 0; i < s.paths; ++i) {
        const auto path = path_of<Real>(s, image, i, first);
        const int64_t row = path.set * s.channels + first;
        const int64_t sequence = ((task.tile * s.images + image) * s.sets + path.set) * s.tokens * states;
        const Walk<Real> walk{static_cast<const Real*>(s.bias) + row,
                              static_cast<Real*>(out.delta) + (path.set * s.images + image) * plane + first,
                              sums.B + sequence,
                              sums.C + sequence,
                              sums.bias + task.group * s.sets * s.channels + row,
                              buffers.A + path.set * states * width,
                              buffers.grad_A + path.set * states * width,
                              buffers,
                              path.set != last_set};
        if (!decays || states != 1)
            backward_path<0, false>(s, path, walk, width, chunks, decays);
        else if (width == 64)
            backward_path<64, true>(s, path, walk, width, chunks, decays);
        else if (width == 32)
            backward_path<32, true>(s, path, walk, width, chunks, decays);
        else
            backward_path<0, true>(s, path, walk, width, chunks, decays);
        last_set = path.set;
    }
    scatter_tile(buffers.grad_x, s.tokens, width, static_cast<Real*>(out.x) + image * plane + first, s.channels);
}

template <class Real>
SV_INLINE void backward_tile(const sv_scan& s, const sv_scan_gradients& out, const Partial<Real>& sums,
                             const Task& task, Real* memory) {
    const int64_t states = s.states, width = task.width;
    const Chunks chunks(s.tokens, states, sizeof(Real));
    const Buffers<Real> buffers(memory, s, chunks, width);
    bool decays = true;
    for (int64_t set = 0; set < s.sets; ++set) {
        const Real* A = static_cast<const Real*>(s.A) + (set * s.channels + task.first) * states;
        for (int64_t j = 0; j < states; ++j)
            for (int64_t c = 0; c < width; ++c) {
                buffers.A[(set * states + j) * width + c] = A[c * states + j];
                decays = decays && A[c * states + j] <= 0;
            }
    }
    std::fill_n(buffers.grad_A, s.sets * states * width, Real(0));
    for (int64_t image = task.begin; image < task.end; ++image)
        backward_image(s, out, sums, task, image, chunks, buffers, decays);
    for (int64_t set = 0; set < s.sets; ++set) {
        Real* grad_A = sums.A + ((task.group * s.sets + set) * s.channels + task.first) * states;
        for (int64_t j = 0; j < states; ++j)
            for (int64_t c = 0; c < width; ++c) grad_A[c * states + j] = buffers.grad_A[(set * states + j) * width + c];
    }
}

SV_CLONES void backward_task(const sv_scan& s, const sv_scan_gradients& out, const Partial<float>& sums,
                             const Task& task, float* memory) {
    backward_tile(s, out, sums, task, memory);
}

SV_CLONES void backward_task(const sv_scan& s, const sv_scan_gradients& out, const Partial<double>& sums,
                             const Task& task, double* memory) {
    backward_tile(s, out, sums, task, memory);
}

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

// Sums over images are kept per group of images, so that tasks on short paths do not spend their time on them. The
// groups depend only on the number of images, and so does the order of every sum.
constexpr int64_t max_groups = 32;

template <class Real>
int backward(const sv_scan& s, const sv_scan_gradients& out) {
    const Chunks chunks(s.tokens, s.states, sizeof(Real));
    const int64_t tiles = tile_count(s), groups = std::min(s.images, max_groups), tasks = groups * tiles;
    const int64_t sequence = s.images * s.sets * s.tokens * s.states, row = s.sets * s.channels;
    std::vector<Real> over_tiles(2 * tiles * sequence), over_images(groups * row * (2 + s.states));
    Partial<Real> sums;
    sums.B = over_tiles.data();
    sums.C = sums.B + tiles * sequence;
    sums.A = over_images.data();
    sums.D = sums.A + groups * row * s.states;
    sums.bias = sums.D + groups * row;
    const int64_t bytes = s.images * s.tokens * s.channels * int64_t(sizeof(Real));
    expect_large(out.x, bytes);
    expect_large(out.delta, bytes * s.sets);
    Failures failures;
#pragma omp parallel num_threads(s.threads)
    {
        Scratch<Real> memory;
        failures.catch_in([&] { memory = allocate_scratch<Real>(Buffers<Real>::size(s, chunks)); });
#pragma omp for schedule(static)
        for (int64_t i = 0; i < tasks; ++i) {
            if (!memory) continue;
            const int64_t tile = i % tiles, first = tile * tile_width, group = i / tiles;
            const int64_t width = std::min(tile_width, s.channels - first);
            const int64_t begin = group * s.images / groups, end = (group + 1) * s.images / groups;
            const Task task{tile, first, width, group, begin, end};
            failures.catch_in([&] { backward_task(s, out, sums, task, memory.get()); });
        }
    }
    failures.rethrow();
    add_up(sums.B, tiles, sequence, static_cast<Real*>(out.B), s.threads);
    add_up(sums.C, tiles, sequence, static_cast<Real*>(out.C), s.threads);
    add_up(sums.A, groups, row * s.states, static_cast<Real*>(out.A), s.threads);
    add_up(sums.D, groups, row, static_cast<Real*>(out.D), s.threads);
    add_up(sums.bias, groups, row, static_cast<Real*>(out.bias), s.threads);
    return SV_OK;
}

}  // namespace
}  // namespace sv

int sv_scan_backward(const sv_scan* scan, const sv_scan_gradients* gradients) {
    return sv::guarded([&] {
        return scan->x_type == SV_FLOAT64 ? sv::backward<double>(*scan, *gradients)
                                          : sv::backward<float>(*scan, *gradients);
    });
}
