#include "pose.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "guard.h"

namespace sv {
namespace {

// The pixels of a row whose centers lie in the inscribed circle, from first to before end.
struct Span {
    int64_t first, end;
};

std::vector<Span> disk_spans(int64_t side) {
    std::vector<Span> spans(side);
    for (int64_t i = 0; i < side; ++i) {
        const int64_t y = 2 * i - (side - 1);
        int64_t first = 0;
        for (int64_t x = 1 - side; first < side && x * x + y * y > side * side; x += 2) ++first;
        spans[i] = {first, std::max(first, side - first)};
    }
    return spans;
}

// An image read as if it was turned counterclockwise: pixel (i, j) is at base + i * row + j * column.
struct TurnedView {
    int64_t base, row, column;
};

TurnedView turned_view(int64_t quarters, int64_t side) {
    switch (quarters) {
        case 0: return {0, side, 1};
        case 1: return {side - 1, -1, side};
        case 2: return {side * side - 1, -side, -1};
        default: return {(side - 1) * side, 1, -side};
    }
}

// Whether the second view has the larger value at the first pixel of the disk where the two differ.
bool second_is_larger(const sv_pose_options& o, const Span* spans, const float* image, TurnedView first,
                      TurnedView second) {
    for (int64_t c = 0; c < o.channels; ++c) {
        const float *a = image + c * o.side * o.side + first.base, *b = image + c * o.side * o.side + second.base;
        for (int64_t i = 0; i < o.side; ++i)
            for (int64_t j = spans[i].first; j < spans[i].end; ++j) {
                const float x = a[i * first.row + j * first.column], y = b[i * second.row + j * second.column];
                if (x != y) return y > x;
            }
    }
    return false;
}

// Two rounds: 0 and 1 quarters against their half turns, then the winners.
int64_t largest_turn(const sv_pose_options& o, const Span* spans, const float* image) {
    auto better = [&](int64_t a, int64_t b) {
        return second_is_larger(o, spans, image, turned_view(a, o.side), turned_view(b, o.side)) ? b : a;
    };
    return better(better(0, 2), better(1, 3));
}

void turn_disk(const sv_pose_options& o, const Span* spans, const float* image, int64_t quarters, float* turned) {
    const TurnedView view = turned_view(quarters, o.side);
    for (int64_t c = 0; c < o.channels; ++c)
        for (int64_t i = 0; i < o.side; ++i) {
            const float* from = image + c * o.side * o.side + view.base + i * view.row;
            float* to = turned + (c * o.side + i) * o.side;
            std::fill(to, to + spans[i].first, 0.0f);
            for (int64_t j = spans[i].first; j < spans[i].end; ++j) to[j] = from[j * view.column];
            std::fill(to + spans[i].end, to + o.side, 0.0f);
        }
}

SV_CLONES void sum_brightness(const sv_pose_options& o, const Span* spans, const float* image, const int64_t* weights,
                              float unit, float largest, int64_t* sums) {
    const int64_t pixels = o.side * o.side;
    int64_t right = 0, up = 0;
    for (int64_t i = 0; i < o.side; ++i)
        for (int64_t j = spans[i].first; j < spans[i].end; ++j) {
            const int64_t at = i * o.side + j;
            float gray = 0;
            for (int64_t c = 0; c < o.channels; ++c) gray += image[c * pixels + at];
            gray /= unit;
            const float counted = gray > largest ? largest : gray < -largest ? -largest : gray;
            const int64_t brightness = gray == gray ? std::lrintf(counted) : 0;  // NaN counts as 0
            right += brightness * weights[at];
            up += brightness * weights[pixels + at];
        }
    sums[0] = right, sums[1] = up;
}

// Four channels of a pixel side by side, so that one instruction works on all.
constexpr int64_t LANES = 4;
struct alignas(16) Pixel {
    float lane[LANES];
};

// Beyond the canvas. A pixel inside the disk is interpolated from up to two pixels beyond.
constexpr int64_t MARGIN = 3;

struct Canvas {
    Pixel* pixels;  // (side + 2 MARGIN)², zero in the margin
    int64_t stride;
    Pixel lowest, highest;
    Pixel invalid;  // 0, or NaN for a channel with NaN, whose range is unknown

    Pixel* at(int64_t i, int64_t j) const { return pixels + (i + MARGIN) * stride + j + MARGIN; }
};

// Blurs one channel along both axes into a lane of the canvas. `row` has room for side + 2 radius values, zero at both
// ends.
SV_CLONES void blur_into(const sv_pose_options& o, const float* channel, const float* blur, int64_t radius, float* row,
                         Canvas& canvas, int64_t lane) {
    float lowest = std::numeric_limits<float>::infinity(), highest = -lowest;
    bool valid = true;
    for (int64_t i = 0; i < o.side; ++i) {
        float* center = row + radius;
        const float* from = channel + i * o.side;
        for (int64_t j = 0; j < o.side; ++j) center[j] = radius ? from[j] * blur[0] : from[j];
        for (int64_t k = 1; k <= radius; ++k) {
            const float *above = i >= k ? from - k * o.side : nullptr,
                        *below = i + k < o.side ? from + k * o.side : nullptr;
            if (above && below)
                for (int64_t j = 0; j < o.side; ++j) center[j] += (above[j] + below[j]) * blur[k];
            else if (above || below) {
                const float* one = above ? above : below;
                for (int64_t j = 0; j < o.side; ++j) center[j] += one[j] * blur[k];
            }
        }
        Pixel* to = canvas.at(i, 0);
        for (int64_t j = 0; j < o.side; ++j) {
            float value = center[j];
            if (radius) {
                value *= blur[0];
                for (int64_t k = 1; k <= radius; ++k) value += (center[j - k] + center[j + k]) * blur[k];
            }
            to[j].lane[lane] = value;
            lowest = value < lowest ? value : lowest;
            highest = value > highest ? value : highest;
            valid = valid && value == value;
        }
    }
    canvas.lowest.lane[lane] = lowest, canvas.highest.lane[lane] = highest;
    canvas.invalid.lane[lane] = valid ? 0 : std::numeric_limits<float>::quiet_NaN();
}

// The weights of four neighboring pixels at a distance of 1 + t, t, 1 - t and 2 - t, for 0 ≤ t < 1: cubic convolution
// with a = -0.75.
SV_INLINE void cubic_weights(float t, float* weights) {
    constexpr float a = -0.75f;
    auto near = [](float x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    auto far = [](float x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    weights[0] = far(t + 1), weights[1] = near(t), weights[2] = near(1 - t), weights[3] = far(2 - t);
}

SV_INLINE Pixel interpolate(const Canvas& canvas, float x, float y) {
    const float left = std::floor(x), top = std::floor(y);
    float columns[4], rows[4];
    cubic_weights(x - left, columns);
    cubic_weights(y - top, rows);
    const Pixel* corner = canvas.at(int64_t(top) - 1, int64_t(left) - 1);
    Pixel sum{};
    for (int r = 0; r < 4; ++r) {
        const Pixel* from = corner + r * canvas.stride;
        for (int64_t lane = 0; lane < LANES; ++lane)
            sum.lane[lane] += rows[r] * (columns[0] * from[0].lane[lane] + columns[1] * from[1].lane[lane] +
                                         columns[2] * from[2].lane[lane] + columns[3] * from[3].lane[lane]);
    }
    for (int64_t lane = 0; lane < LANES; ++lane) {
        const float low = canvas.lowest.lane[lane], high = canvas.highest.lane[lane];
        const float value = sum.lane[lane] < low ? low : sum.lane[lane];
        sum.lane[lane] = (value > high ? high : value) + canvas.invalid.lane[lane];
    }
    return sum;
}

SV_CLONES void rotate_canvas(const sv_pose_options& o, const Span* spans, const Canvas& canvas, float cos, float sin,
                             bool nearest, int64_t lanes, float* rotated) {
    const float center = float(o.side - 1) / 2, most = float(o.side) + 0.5f;
    // Also for rotations that are not numbers: the canvas and its margin are all that may be read.
    auto limit = [=](float x) { return x > -1.5f ? x < most ? x : most : -1.5f; };
    for (int64_t i = 0; i < o.side; ++i)
        for (int64_t j = spans[i].first; j < spans[i].end; ++j) {
            const float x = float(j) - center, y = float(i) - center;
            const float from_x = limit(cos * x - sin * y + center), from_y = limit(sin * x + cos * y + center);
            const Pixel value = nearest ? *canvas.at(std::lrintf(from_y), std::lrintf(from_x))
                                        : interpolate(canvas, from_x, from_y);
            for (int64_t lane = 0; lane < lanes; ++lane) rotated[(lane * o.side + i) * o.side + j] = value.lane[lane];
        }
}

void rotate_disk(const sv_pose_options& o, const Span* spans, const float* image, const float* rotation, bool nearest,
                 const float* blur, int64_t radius, float* rotated) {
    const int64_t stride = o.side + 2 * MARGIN, pixels = o.side * o.side;
    std::fill(rotated, rotated + o.channels * pixels, 0.0f);
    std::vector<float> row(o.side + 2 * radius);
    std::vector<Pixel> work(stride * stride);
    for (int64_t first = 0; first < o.channels; first += LANES) {
        const int64_t lanes = std::min(LANES, o.channels - first);
        Canvas canvas{work.data(), stride, {}, {}, {}};
        for (int64_t lane = 0; lane < lanes; ++lane)
            blur_into(o, image + (first + lane) * pixels, blur, radius, row.data(), canvas, lane);
        rotate_canvas(o, spans, canvas, rotation[0], rotation[1], nearest, lanes, rotated + first * pixels);
    }
}

// Runs work(image) for all images, in parallel.
template <class Work>
int for_each_image(const sv_pose_options& o, Work&& work) {
    Failures failures;
#pragma omp parallel for num_threads(o.threads) schedule(static)
    for (int64_t i = 0; i < o.images; ++i) failures.catch_in([&] { work(i); });
    failures.rethrow();
    return SV_OK;
}

}  // namespace
}  // namespace sv

int sv_find_directions(const sv_pose_options* options, const float* images, const int64_t* weights, float unit,
                       float largest, float* turned, int64_t* quarters, int64_t* sums) {
    return sv::guarded([&] {
        const sv_pose_options& o = *options;
        const std::vector<sv::Span> spans = sv::disk_spans(o.side);
        const int64_t size = o.channels * o.side * o.side;
        return sv::for_each_image(o, [&](int64_t i) {
            quarters[i] = sv::largest_turn(o, spans.data(), images + i * size);
            sv::turn_disk(o, spans.data(), images + i * size, quarters[i], turned + i * size);
            sv::sum_brightness(o, spans.data(), turned + i * size, weights, unit, largest, sums + 2 * i);
        });
    });
}

int sv_rotate_disks(const sv_pose_options* options, const float* images, const float* rotations, const uint8_t* nearest,
                    const float* blur, int64_t radius, float* rotated) {
    return sv::guarded([&] {
        const sv_pose_options& o = *options;
        const std::vector<sv::Span> spans = sv::disk_spans(o.side);
        const int64_t size = o.channels * o.side * o.side;
        return sv::for_each_image(o, [&](int64_t i) {
            sv::rotate_disk(o, spans.data(), images + i * size, rotations + 2 * i, nearest[i] != 0, blur, radius,
                            rotated + i * size);
        });
    });
}
