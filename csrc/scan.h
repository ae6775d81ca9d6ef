// Selective scan along visiting orders. The outputs of all paths are summed in grid order.
//
//     Δ_t = softplus(delta_t + bias),  h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t,  y[order_t] += C_t h_t + D x_t
#pragma once

#include <cstdint>

#include "platform.h"

enum sv_type : int32_t { SV_FLOAT32 = 0, SV_FLOAT64 = 1, SV_BFLOAT16 = 2 };

// Strides count elements. x (images, tokens, channels) and delta (images, sets, tokens, channels) have adjacent
// channels. A (sets, channels, states), B and C (images, sets, tokens, states), D and bias (sets, channels), orders
// (images, paths, tokens) and y are contiguous. If x is float64, so is everything else. Otherwise x and delta are
// float32 or bfloat16, and A, B, C, D, bias and all outputs are float32. Path i uses parameter set i * sets / paths.
// orders must hold permutations: see sv_check_orders.
struct sv_scan {
    const void *x, *delta, *A, *B, *C, *D, *bias;
    const int64_t* orders;
    int64_t images, tokens, channels, states, sets, paths;
    int64_t x_image, x_token;
    int64_t delta_image, delta_set, delta_token;
    int32_t x_type, delta_type, threads, reserved;
};

// All arrays are contiguous. delta is laid out (sets, images, tokens, channels).
struct sv_scan_gradients {
    const void* grad_y;
    void *x, *delta, *A, *B, *C, *D, *bias;
};

// SV_BAD_INPUT unless each of the rows holds every number from 0 to tokens - 1 once.
SV_EXPORT int sv_check_orders(const int64_t* orders, int64_t rows, int64_t tokens);
SV_EXPORT int sv_scan_forward(const sv_scan* scan, void* y);
SV_EXPORT int sv_scan_backward(const sv_scan* scan, const sv_scan_gradients* gradients);
