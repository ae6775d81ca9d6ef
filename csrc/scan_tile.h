// What the forward and the backward scan share.
//
// Channels are last in memory and vector lanes run over channels, so walking an order reads whole rows. A task is one
// tile of channels of one or more images, over all paths. No two tasks write to the same place, so results do not
// depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "elementary.h"
#include "platform.h"
#include "scan.h"
#include "scratch.h"

namespace sv {

constexpr int64_t tile_width = 64;  // channels of a tile; the last tile may be narrower

inline int64_t tile_count(const sv_scan& s) { return (s.channels + tile_width - 1) / tile_width; }

// Whether x and delta may be bfloat16 where the arithmetic is in Real.
template <class Real>
constexpr bool takes_half = std::is_same_v<Real, float>;

// One path of one image, at the first channel of the tile.
template <class Real>
struct Path {
    const char* delta;  // rows of Real or of bfloat16
    int64_t delta_row;  // bytes from one row to the next
    bool delta_is_half;
    const Real *B, *C;  // (tokens, states)
    const int64_t* order;
    int64_t set;
};

template <class Real>
SV_INLINE Path<Real> path_of(const sv_scan& s, int64_t image, int64_t path, int64_t first) {
    const int64_t set = path * s.sets / s.paths, row = (image * s.sets + set) * s.tokens * s.states;
    const bool half = takes_half<Real> && s.delta_type == SV_BFLOAT16;
    const int64_t size = half ? sizeof(bfloat16) : sizeof(Real);
    return {static_cast<const char*>(s.delta) + (image * s.delta_image + set * s.delta_set + first) * size,
            s.delta_token * size,
            half,
            static_cast<const Real*>(s.B) + row,
            static_cast<const Real*>(s.C) + row,
            s.orders + (image * s.paths + path) * s.tokens,
            set};
}

// Rows along an order are scattered in memory: prefetch them this many steps ahead.
constexpr int64_t lookahead = 6;

SV_INLINE void prefetch(const void* row, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(static_cast<const char*>(row) + i);
}

template <class Real>
SV_INLINE void prefetch_delta(const sv_scan& s, const Path<Real>& path, int64_t t, int64_t width) {
    if (t + lookahead < s.tokens)
        prefetch(path.delta + path.order[t + lookahead] * path.delta_row,
                 width * int64_t(path.delta_is_half ? sizeof(bfloat16) : sizeof(Real)));
}

// A row of delta: in place, or converted from bfloat16 into `buffer`. Walks are compiled once for both types.
template <class Real>
SV_INLINE const Real* delta_row(const Path<Real>& path, int64_t token, int64_t width, Real* buffer) {
    const char* row = path.delta + token * path.delta_row;
    if constexpr (takes_half<Real>)
        if (path.delta_is_half) {
            for (int64_t c = 0; c < width; ++c) buffer[c] = load(reinterpret_cast<const bfloat16*>(row)[c]);
            return buffer;
        }
    return reinterpret_cast<const Real*>(row);
}

// The sum of D over all paths.
template <class Real>
SV_INLINE void sum_of_D(const sv_scan& s, int64_t first, int64_t width, Real* sum) {
    for (int64_t c = 0; c < width; ++c) sum[c] = 0;
    for (int64_t i = 0; i < s.paths; ++i)
        for (int64_t c = 0; c < width; ++c)
            sum[c] += static_cast<const Real*>(s.D)[i * s.sets / s.paths * s.channels + first + c];
}

// Copies the rows of a tile next to each other. Every path visits them again, and rows a power of two apart would evict
// each other from the caches.
template <class Real, class Value>
SV_INLINE void gather_tile(const Value* rows, int64_t pitch, int64_t tokens, int64_t width, Real* tile) {
    for (int64_t token = 0; token < tokens; ++token)
        for (int64_t c = 0; c < width; ++c) tile[token * width + c] = load(rows[token * pitch + c]);
}

template <class Real>
SV_INLINE void gather_x(const sv_scan& s, int64_t image, int64_t first, int64_t width, Real* tile) {
    const int64_t start = image * s.x_image + first;
    if constexpr (takes_half<Real>)
        if (s.x_type == SV_BFLOAT16)
            return gather_tile(static_cast<const bfloat16*>(s.x) + start, s.x_token, s.tokens, width, tile);
    gather_tile(static_cast<const Real*>(s.x) + start, s.x_token, s.tokens, width, tile);
}

template <class Real>
SV_INLINE void scatter_tile(const Real* tile, int64_t tokens, int64_t width, Real* rows, int64_t pitch) {
    for (int64_t token = 0; token < tokens; ++token)
        for (int64_t c = 0; c < width; ++c) rows[token * pitch + c] = tile[token * width + c];
}

}  // namespace sv
