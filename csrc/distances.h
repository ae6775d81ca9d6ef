// Squared distances between tokens, each a plain sum over channels: exactly symmetric, exactly 0 between equal tokens,
// and independent of how tokens are numbered.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "platform.h"

namespace sv {

typedef double Lanes __attribute__((vector_size(32), aligned(8)));

// The distinct tokens of an image. Patches of a blank background have the same bits and become one token here.
class Tokens {
  public:
    static constexpr int64_t group = 8;  // tokens side by side in memory: two vectors
    int64_t count, channels, padded;
    std::vector<int32_t> owner;  // the distinct token of each token of the image
    std::vector<int32_t> sizes;  // how often each distinct token occurs, (count)
    std::vector<double> rows;    // (count, channels), relative to the mean of each channel
    std::vector<double> packed;  // the same as (padded / group, channels, group)
    std::vector<double> norms;   // squared lengths of the rows, (padded)
    double largest_norm = 0;

    Tokens(const double* features, int64_t all, int64_t channels) : channels(channels) {
        find_distinct(features, all);
        count = int64_t(sizes.size());
        padded = (count + group - 1) / group * group;
        packed.resize(padded * channels);
        norms.resize(padded);
        std::vector<double> lowest(rows.begin(), rows.begin() + channels), highest = lowest;
        for (int64_t i = 1; i < count; ++i)
            for (int64_t c = 0; c < channels; ++c) {
                lowest[c] = std::min(lowest[c], rows[i * channels + c]);
                highest[c] = std::max(highest[c], rows[i * channels + c]);
            }
        std::vector<double> center(channels);
        for (int64_t c = 0; c < channels; ++c) center[c] = exact_mean(c, lowest[c], highest[c]);
        for (int64_t i = 0; i < count; ++i) {
            for (int64_t c = 0; c < channels; ++c) {
                const double value = rows[i * channels + c] -= center[c];
                packed[(i / group * channels + c) * group + i % group] = value;
                norms[i] += value * value;
            }
            largest_norm = std::max(largest_norm, norms[i]);
        }
    }

  private:
    // The mean of a channel over all tokens of the image, up to 2^-40 of its range: a sum of integers, which does not
    // depend on how tokens are numbered. With the middle of the range, one distant token would make all norms large.
    double exact_mean(int64_t channel, double lowest, double highest) const {
        const double middle = lowest + (highest - lowest) / 2, unit = (highest - lowest) * 0x1p-40;
        if (!(unit > 0) || !std::isfinite(unit)) return middle;
        int64_t total = 0;
        for (int64_t i = 0; i < count; ++i)
            total += std::llrint((rows[i * channels + channel] - middle) / unit) * sizes[i];
        return middle + double(total) / double(owner.size()) * unit;
    }

    // A hash table with open addressing, keyed by the bits of each row.
    void find_distinct(const double* features, int64_t all) {
        size_t slots = 16;
        while (slots < size_t(2 * all)) slots *= 2;
        std::vector<int32_t> table(slots, -1);
        owner.reserve(all);
        sizes.reserve(all);
        rows.reserve(all * channels);
        for (int64_t i = 0; i < all; ++i) {
            const double* row = features + i * channels;
            size_t slot = hash(row) & (slots - 1);
            while (table[slot] >= 0 &&
                   std::memcmp(rows.data() + table[slot] * channels, row, channels * sizeof(double)) != 0)
                slot = (slot + 1) & (slots - 1);
            if (table[slot] < 0) {
                table[slot] = int32_t(sizes.size());
                sizes.push_back(0);
                rows.insert(rows.end(), row, row + channels);
            }
            owner.push_back(table[slot]);
            ++sizes[table[slot]];
        }
    }

    size_t hash(const double* row) const {
        uint64_t mixed = 0x9e3779b97f4a7c15;
        for (int64_t c = 0; c < channels; ++c) {
            mixed = (mixed ^ std::bit_cast<uint64_t>(row[c])) * 0xbf58476d1ce4e5b9;
            mixed ^= mixed >> 32;  // numbers with few significant bits differ only in their high bits
        }
        return size_t(mixed);
    }
};

SV_INLINE double squared_distance(const Tokens& tokens, int64_t a, int64_t b, double same) {
    const double *first = tokens.rows.data() + a * tokens.channels, *second = tokens.rows.data() + b * tokens.channels;
    double squared = 0;
    for (int64_t c = 0; c < tokens.channels; ++c) squared += (first[c] - second[c]) * (first[c] - second[c]);
    return squared <= same * (tokens.norms[a] + tokens.norms[b]) ? 0.0 : squared;
}

// out (number, padded): distances from tokens first, first + 1, …; entries past the last token are undefined.
template <int64_t number>
SV_INLINE void squared_distances(const Tokens& tokens, int64_t first, double same, double* out) {
    const int64_t channels = tokens.channels;
    const double* from = tokens.rows.data() + first * channels;
    for (int64_t block = 0; block < tokens.padded; block += Tokens::group) {
        const double* to = tokens.packed.data() + block * channels;
        Lanes low[number] = {}, high[number] = {};
        for (int64_t c = 0; c < channels; ++c) {
            Lanes to_low, to_high;
            std::memcpy(&to_low, to + c * Tokens::group, sizeof(Lanes));
            std::memcpy(&to_high, to + c * Tokens::group + 4, sizeof(Lanes));
            for (int64_t i = 0; i < number; ++i) {
                Lanes a = to_low - from[i * channels + c], b = to_high - from[i * channels + c];
                low[i] += a * a;
                high[i] += b * b;
            }
        }
        for (int64_t i = 0; i < number; ++i) {
            std::memcpy(out + i * tokens.padded + block, &low[i], sizeof(Lanes));
            std::memcpy(out + i * tokens.padded + block + 4, &high[i], sizeof(Lanes));
        }
    }
    for (int64_t i = 0; i < number; ++i) {
        double *row = out + i * tokens.padded, own = tokens.norms[first + i];
        for (int64_t j = 0; j < tokens.count; ++j) row[j] = row[j] <= same * (own + tokens.norms[j]) ? 0.0 : row[j];
    }
}

}  // namespace sv
