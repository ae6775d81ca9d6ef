// The frame "moment": square images turned by quarter turns and rotated about their center, inside the inscribed disk.
// The references are find_rotation and rotate_further in ops/frames/moment.py.
#pragma once

#include <cstdint>

#include "platform.h"

struct sv_pose_options {
    int64_t images, channels, side;
    int32_t threads, reserved;
};

// Turns each disk to the quarter turn whose values, read in order, are lexicographically largest. `weights` (2, side,
// side) say how much each pixel pulls to the right and up; zero outside the disk. Writes the turned disks, zero outside
// (images, channels, side, side), their quarter turns, counterclockwise (images), and the sums over pixels of brightness
// times weight (images, 2). Brightness is counted in units of `unit`, rounded to an integer, and limited to ±`largest`.
SV_EXPORT int sv_find_directions(const sv_pose_options* options, const float* images, const int64_t* weights,
                                 float unit, float largest, float* turned, int64_t* quarters, int64_t* sums);

// Rotates each disk by its cosine and sine (images, 2): by bicubic interpolation limited to the range of values of each
// channel, or, where `nearest` (images) is not zero, by the nearest pixels. The images are blurred before, along both
// axes, by the symmetric kernel whose center and one half are `blur` (1 + radius); zeros beyond the canvas. Writes zeros
// outside the disk.
SV_EXPORT int sv_rotate_disks(const sv_pose_options* options, const float* images, const float* rotations,
                              const uint8_t* nearest, const float* blur, int64_t radius, float* rotated);
