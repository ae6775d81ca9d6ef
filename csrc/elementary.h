// exp and softplus that the compiler turns into vector code on any processor, without -ffast-math.
//
// Their errors are measured by tests/ops/test_native.py, which states the bounds. NaN stays NaN; nothing flushes
// denormals that come in. double goes through the C library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "platform.h"

namespace sv {

struct bfloat16 {
    uint16_t bits;
};

SV_INLINE float load(float value) { return value; }
SV_INLINE double load(double value) { return value; }
SV_INLINE float load(bfloat16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }

// x = i ln 2 + r with |r| ≤ ln 2 / 2; e^r by a minimax polynomial (3.1e-9), 2^i through the exponent bits. ln 2 in two
// parts, the first of so few bits that its product with i is exact: also without fused multiply-adds.
SV_INLINE float exponential_in_range(float x) {
    constexpr float round_to_integer = 12582912.0f;  // 1.5 · 2^23: adding it leaves the integer in the low bits
    float shifted = x * 1.44269504f + round_to_integer;
    float i = shifted - round_to_integer;
    float r = (x - i * 0.693359375f) + i * 2.12194440e-4f;
    float value = 0.00138145985f;
    value = value * r + 0.00836871689f;
    value = value * r + 0.0416683880f;
    value = value * r + 0.166665206f;
    value = value * r + 0.499999934f;
    value = value * r + 1.0f;
    value = value * r + 1.0f;
    return value * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127u) << 23);
}

// For x ≤ 0; below -87.3 the result stays at 1.2e-38, the smallest normal number.
SV_INLINE float decaying_exponential(float x) {
    constexpr float lowest = -87.33f;
    return exponential_in_range(x < lowest ? lowest : x);
}

SV_INLINE float exponential(float x) {
    constexpr float highest = 88.37f;
    float value = decaying_exponential(x > highest ? highest : x);
    return x > highest ? std::numeric_limits<float>::infinity() : value;
}

SV_INLINE double decaying_exponential(double x) { return std::exp(x); }
SV_INLINE double exponential(double x) { return std::exp(x); }

// z in [0, 1]: log(1 + z) = z times a minimax polynomial (4.7e-9). A division would take longer than its ten terms.
SV_INLINE float log_one_plus(float z) {
    float value = -0.00324402274f;
    value = value * z + 0.0198514512f;
    value = value * z - 0.0569595129f;
    value = value * z + 0.106036527f;
    value = value * z - 0.153055912f;
    value = value * z + 0.196759388f;
    value = value * z - 0.249541336f;
    value = value * z + 0.333299624f;
    value = value * z - 0.499999024f;
    value = value * z + 1.0f;
    return value * z;
}

SV_INLINE double log_one_plus(double z) { return std::log1p(z); }

template <class Real>
SV_INLINE Real positive_part(Real x) {
    return x < Real(0) ? Real(0) : x;
}

template <class Real>
SV_INLINE Real softplus(Real x) {
    return positive_part(x) + log_one_plus(decaying_exponential(-std::fabs(x)));
}

}  // namespace sv
