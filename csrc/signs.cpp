#include "signs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "guard.h"

namespace sv {
namespace {

SV_INLINE double dot(const double* a, const double* b, int64_t size) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
    return sum;
}

// Subtracts the mean and divides by the largest absolute value.
template <class Value>
SV_INLINE void standardize(const Value* values, int64_t size, double* out) {
    double mean = 0, largest = 0;
    for (int64_t i = 0; i < size; ++i) mean += double(values[i]);
    mean /= double(size);
    for (int64_t i = 0; i < size; ++i) largest = std::max(largest, std::fabs(out[i] = double(values[i]) - mean));
    for (int64_t i = 0; i < size; ++i) out[i] = largest > 0 ? out[i] / largest : 0;
}

// √degree · content^i · radius^j, orthogonal to the trivial vector and normalized; zero if it is too short.
SV_INLINE void fill_probe(const double* content, int i, const double* radius, int j, const double* trivial,
                          int64_t size, double significant, double* probe) {
    std::copy_n(trivial, size, probe);
    for (int k = 0; k < i; ++k)
        for (int64_t t = 0; t < size; ++t) probe[t] *= content[t];
    for (int k = 0; k < j; ++k)
        for (int64_t t = 0; t < size; ++t) probe[t] *= radius[t];
    const double along = dot(probe, trivial, size);
    for (int64_t t = 0; t < size; ++t) probe[t] -= along * trivial[t];
    const double length = std::sqrt(dot(probe, probe, size));
    for (int64_t t = 0; t < size; ++t) probe[t] = length > significant ? probe[t] / length : 0;
}

// Evidence for the sign of a vector: the first clear value, else the first significant one, else the first of all.
struct Evidence {
    double clear = 0, significant = 0, first = std::nan("");

    SV_INLINE void add(double value, const sv_sign_options& o) {
        const double size = std::fabs(value);
        if (std::isnan(first)) first = value;
        if (significant == 0 && size > o.significant) significant = value;
        if (clear == 0 && size > o.clear) clear = value;
    }
    SV_INLINE double sign() const { return (clear != 0 ? clear : significant != 0 ? significant : first) < 0 ? -1 : 1; }
};

struct Image {
    const double *vectors, *trivial, *content;
    const int64_t *squared_radii, *node_order;
};

SV_CLONES void signs_of(const sv_sign_options& o, const Image& image, double* work, double* signs) {
    double *content = work, *radius = content + o.tokens, *probe = radius + o.tokens;
    standardize(image.content, o.tokens, content);
    standardize(image.squared_radii, o.tokens, radius);
    std::vector<Evidence> evidence(o.count);
    auto is_clear = [](const Evidence& e) { return e.clear != 0; };
    auto all_clear = [&] { return std::all_of(evidence.begin(), evidence.end(), is_clear); };
    for (int total = 1; total <= o.degree; ++total)
        for (int j = 0; j <= total && !all_clear(); ++j) {
            fill_probe(content, total - j, radius, j, image.trivial, o.tokens, o.significant, probe);
            for (int64_t v = 0; v < o.count; ++v)
                evidence[v].add(dot(image.vectors + v * o.tokens, probe, o.tokens), o);
        }
    for (int64_t v = 0; v < o.count; ++v) {
        for (int64_t t = 0; t < o.tokens && evidence[v].clear == 0; ++t)
            evidence[v].add(image.vectors[v * o.tokens + image.node_order[t]], o);
        signs[v] = evidence[v].sign();
    }
}

int eigenvector_signs(const sv_sign_options& o, const Image& images, double* signs) {
    Failures failures;
#pragma omp parallel for num_threads(o.threads) schedule(static)
    for (int64_t i = 0; i < o.images; ++i)
        failures.catch_in([&] {
            std::vector<double> work(3 * o.tokens);
            const Image image{images.vectors + i * o.vectors_image, images.trivial + i * o.tokens,
                              images.content + i * o.tokens, images.squared_radii, images.node_order + i * o.tokens};
            signs_of(o, image, work.data(), signs + i * o.count);
        });
    failures.rethrow();
    return SV_OK;
}

}  // namespace
}  // namespace sv

int sv_eigenvector_signs(const sv_sign_options* options, const double* vectors, const double* trivial,
                         const double* content, const int64_t* squared_radii, const int64_t* node_order,
                         double* signs) {
    return sv::guarded([&] {
        return sv::eigenvector_signs(*options, {vectors, trivial, content, squared_radii, node_order}, signs);
    });
}
