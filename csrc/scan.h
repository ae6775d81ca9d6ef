// The selective scan along visiting orders, merged in grid order.
//
//     Δ_t = softplus(delta_t + bias),  h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t,  y[order_t] += C_t h_t + D x_t
//
// Channels are last in memory and vector lanes run over channels, so walking an order reads whole rows. A task is one
// image and one tile of channels, over all paths: no two tasks write the same place, and results do not depend on the
// number of threads.
#pragma once

#include <cstdint>

#include "elementary.h"
#include "platform.h"
#include "scratch.h"

enum sv_type : int32_t { SV_FLOAT32 = 0, SV_FLOAT64 = 1, SV_BFLOAT16 = 2 };

// Strides count elements. x (images, tokens, channels) and delta (images, sets, tokens, channels) have adjacent
// channels. A (sets, channels, states), B and C (images, sets, tokens, states), D and bias (sets, channels), orders
// (images, paths, tokens) and y are contiguous. A, B, C, D, bias and all outputs are float64 if x is, else float32.
// Path i uses parameter set i * sets / paths. orders must hold permutations: see sv_check_orders.
struct sv_scan {
    const void *x, *delta, *A, *B, *C, *D, *bias;
    const int64_t* orders;
    int64_t images, tokens, channels, states, sets, paths;
    int64_t x_image, x_token;
    int64_t delta_image, delta_set, delta_token;
    int32_t x_type, delta_type, threads, reserved;
};

// All contiguous but grad_delta, which is laid out (sets, images, tokens, channels).
struct sv_scan_gradients {
    const void* grad_y;
    void *x, *delta, *A, *B, *C, *D, *bias;
};

SV_EXPORT int sv_check_orders(const int64_t* orders, int64_t rows, int64_t tokens);
SV_EXPORT int sv_scan_forward(const sv_scan* scan, void* y);
SV_EXPORT int sv_scan_backward(const sv_scan* scan, const sv_scan_gradients* gradients);

namespace sv {

template <class Real, class Delta>
struct Path {
    const Delta* delta;  // of this image and parameter set, at the tile's first channel
    const Real *B, *C;   // (tokens, states)
    const int64_t* order;
    int64_t set;
};

template <class Real, class Delta>
SV_INLINE Path<Real, Delta> path_of(const sv_scan& s, int64_t image, int64_t path, int64_t first) {
    int64_t set = path * s.sets / s.paths, row = (image * s.sets + set) * s.tokens * s.states;
    return {static_cast<const Delta*>(s.delta) + image * s.delta_image + set * s.delta_set + first,
            static_cast<const Real*>(s.B) + row,
            static_cast<const Real*>(s.C) + row,
            s.orders + (image * s.paths + path) * s.tokens,
            set};
}

// Rows along an order lie anywhere: ask for them this many steps ahead.
constexpr int64_t lookahead = 6;

template <class Row>
SV_INLINE void prefetch(const Row* row, int64_t width) {
    auto bytes = reinterpret_cast<const char*>(row);
    for (int64_t i = 0; i < width * int64_t(sizeof(Row)); i += cache_line) __builtin_prefetch(bytes + i);
}

// What all paths multiply x with, together.
template <class Real>
SV_INLINE void sum_of_D(const sv_scan& s, int64_t first, int64_t width, Real* sum) {
    for (int64_t c = 0; c < width; ++c) sum[c] = 0;
    for (int64_t i = 0; i < s.paths; ++i)
        for (int64_t c = 0; c < width; ++c)
            sum[c] += static_cast<const Real*>(s.D)[i * s.sets / s.paths * s.channels + first + c];
}

struct Tiles {
    int64_t width, count;  // the last tile may be narrower
};

// A tile's rows side by side, as every path visits them again: rows a power of two apart would push each other out of
// the caches.
template <class Real, class Value>
SV_INLINE void gather_tile(const Value* rows, int64_t pitch, int64_t tokens, int64_t width, Real* tile) {
    for (int64_t token = 0; token < tokens; ++token)
        for (int64_t c = 0; c < width; ++c) tile[token * width + c] = load(rows[token * pitch + c]);
}

template <class Real>
SV_INLINE void scatter_tile(const Real* tile, int64_t tokens, int64_t width, Real* rows, int64_t pitch) {
    for (int64_t token = 0; token < tokens; ++token)
        for (int64_t c = 0; c < width; ++c) rows[token * pitch + c] = tile[token * width + c];
}

inline Tiles tiles_of(int64_t channels, int64_t width) { return {width, (channels + width - 1) / width}; }

}  // namespace sv
