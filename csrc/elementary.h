// exp, softplus and sigmoid that the compiler turns into vector code on any processor, without -ffast-math.
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

// x = i ln 2 + r with |r| ≤ ln 2 / 2; e^r by a minimax polynomial (3.1e-9), 2^i through the exponent bits. One rounded
// ln 2 is enough with fused multiply-adds: it is off by 1.9e-9, less than half an ulp of e^r while |x| < 22.
SV_INLINE float exponential_in_range(float x) {
    constexpr float round_to_integer = 12582912.0f;  // 1.5 · 2^23: adding it leaves the integer in the low bits
    float shifted = x * 1.44269504f + round_to_integer;
    float i = shifted - round_to_integer;
    float r = x - i * 0.693147182f;
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

// z in [0, 1]: log(1 + z) = 2 artanh(s), s = z / (2 + z), by a minimax polynomial in s² (4.5e-9).
SV_INLINE float log_one_plus(float z) {
    float s = (z + z) / (2.0f + z);  // 2s, and so the coefficients by powers of 4
    float u = s * s;
    float tail = 0.000547125764f;
    tail = tail * u + 0.00218762723f;
    tail = tail * u + 0.0125067307f;
    tail = tail * u + 0.0833330201f;
    return (s * u) * tail + s;
}

SV_INLINE double log_one_plus(double z) { return std::log1p(z); }

template <class Real>
struct Softplus {
    Real value, slope;  // log(1 + e^x) and its derivative, the sigmoid
};

template <class Real>
SV_INLINE Real softplus(Real x) {
    Real z = decaying_exponential(-std::fabs(x));
    return (x < Real(0) ? Real(0) : x) + log_one_plus(z);
}

template <class Real>
SV_INLINE Softplus<Real> softplus_and_slope(Real x) {
    Real z = decaying_exponential(-std::fabs(x));
    Real above = Real(1) / (Real(1) + z);
    return {(x < Real(0) ? Real(0) : x) + log_one_plus(z), x < Real(0) ? z * above : above};
}

}  // namespace sv
