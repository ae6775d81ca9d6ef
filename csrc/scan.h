// The selective scan along visiting orders, merged in grid order.
//
//     Δ_t = softplus(delta_t + bias),  h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t,  y[order_t] += C_t h_t + D x_t
//
// Channels are last in memory and vector lanes run over channels, so walking an order reads whole rows. A task is one
// image and one tile of channels, over all paths: no two tasks write the same place, and results do not depend on the
// number of threads.
#pragma once

#include <cstdint>

#include "platform.h"

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

template <class Real, class X, class Delta>
struct Path {
    const X* x;          // of this image, at the tile's first channel
    const Delta* delta;  // of this image and parameter set, likewise
    const Real *B, *C;   // (tokens, states)
    const int64_t* order;
    int64_t set;
};

template <class Real, class X, class Delta>
SV_INLINE Path<Real, X, Delta> path_of(const sv_scan& s, int64_t image, int64_t path, int64_t first) {
    int64_t set = path * s.sets / s.paths, row = (image * s.sets + set) * s.tokens * s.states;
    return {static_cast<const X*>(s.x) + image * s.x_image + first,
            static_cast<const Delta*>(s.delta) + image * s.delta_image + set * s.delta_set + first,
            static_cast<const Real*>(s.B) + row,
            static_cast<const Real*>(s.C) + row,
            s.orders + (image * s.paths + path) * s.tokens,
            set};
}

// Rows along an order lie anywhere: ask for them this many steps ahead.
constexpr int64_t lookahead = 6;
constexpr int64_t cache_line = 64;

template <class Row>
SV_INLINE void prefetch(const Row* row, int64_t width) {
    auto bytes = reinterpret_cast<const char*>(row);
    for (int64_t i = 0; i < width * int64_t(sizeof(Row)); i += cache_line) __builtin_prefetch(bytes + i);
}

struct Tiles {
    int64_t width, count;  // the last tile may be narrower
};

inline Tiles tiles_of(int64_t channels, int64_t width) { return {width, (channels + width - 1) / width}; }

}  // namespace sv
