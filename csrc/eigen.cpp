// Chebyshev-filtered subspace iteration. A random block with more vectors than wanted pairs has a component along every
// wanted eigenvector, including those of repeated eigenvalues, so no pair is missed. Each round damps everything above
// the largest Ritz value of the block with a polynomial of L, orthonormalizes the block, and rotates it to its Ritz
// vectors. Other methods were measured and are slower: docs/native.md.
#include "eigen.h"

#include <cstring>
#include <iterator>
#include <limits>

#include "block.h"
#include "guard.h"

namespace sv {
namespace {

// One round amplifies the wanted directions by at most e^stretch relative to the unwanted ones.
constexpr double first_stretch = 3, stretch = 10;
constexpr int64_t max_products = 6000;
// The error of a wanted vector is about its residual divided by the gap to the next eigenvalue. Entries within 1e-8
// count as equal (EQUAL_ENTRIES in ops/spectral/canonical.py): aim for a hundredth of that, or for the level of
// rounding.
constexpr double vector_error = 1e-10, rounding = 1e-14, largest_residual = 1e-12, guard_residual = 1e-9;

// S = D^(-1/2) W D^(-1/2) on vectors that are equal on equal tokens, in the orthonormal basis of the nodes. This leaves
// out the differences between equal tokens, which are eigenvectors with eigenvalues above 1.
struct Sparse {
    int64_t rows;
    const int64_t* offsets;
    const int32_t* columns;
    std::vector<double> entries, diagonal;
    std::vector<double> trivial;  // the eigenvector of eigenvalue 1
};

struct Result {
    double *values, *vectors, *residuals;
    int32_t* products;  // of the matrix with a block
};

// out ← α (shift · X − S X) − β · out
template <int V>
SV_INLINE void filter_step(const Sparse& S, const Block<V>& X, double shift, double alpha, double beta, Block<V>& out) {
    const int64_t base = S.offsets[0];
    const int32_t* columns = S.columns + base;
    const double* entries = S.entries.data();
    for (int64_t i = 0; i < S.rows; ++i) {
        Four sum[V] = {};
        for (int64_t e = S.offsets[i] - base, end = S.offsets[i + 1] - base; e < end; ++e) {
            const Four* x = X.row(columns[e]);
            for (int v = 0; v < V; ++v) sum[v] += entries[e] * x[v];
        }
        const Four* x = X.row(i);
        Four* o = out.row(i);
        const double diagonal = shift - S.diagonal[i];
        for (int v = 0; v < V; ++v) o[v] = alpha * (diagonal * x[v] - sum[v]) - beta * o[v];
    }
}

template <int V>
class Solver {
  public:
    explicit Solver(const Sparse& S) : S(S), X(S.rows), LX(S.rows) {}

    SV_INLINE int32_t solve(const sv_eigen_options& o, Result result) {
        start();
        int64_t products = 0;
        double best = std::numeric_limits<double>::infinity();
        for (int32_t round = 1; products < max_products; ++round) {
            if (!orthonormalize()) return -round;
            rotate_to_ritz_vectors();
            *result.products = int32_t(++products);
            const double worst = worst_excess(o);
            if (std::isnan(worst)) return -round;
            // At the level of rounding, more rounds do not help.
            if (worst <= 1 || (worst >= best / 2 && at_rounding(o))) {
                store(o, result);
                return round;
            }
            // The eigenspace fills the block, for example in a graph with very many components.
            if (round > 2 && ritz[columns - 1] - ritz[o.wanted - 1] <= o.cluster) return -round;
            best = std::min(best, worst);
            products += filter(o, round == 1 ? first_stretch : stretch, max_products - products);
        }
        return -1;
    }

  private:
    static constexpr int64_t columns = 4 * V;
    const Sparse& S;
    Block<V> X, LX;  // the block, and L times the block while it holds Ritz vectors
    double ritz[columns], residuals[columns], accuracy = 1e-4;

    // The same numbers for every image, so that a result does not depend on the rest of the batch.
    SV_INLINE void start() {
        uint64_t state = 0;
        for (double& entry : X.data) {
            uint64_t z = (state += 0x9e3779b97f4a7c15);  // splitmix64
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
            z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
            entry = double(int64_t(z ^ (z >> 31))) * 0x1p-63;
        }
    }

    SV_INLINE bool orthonormalize() {
        for (int pass = 0; pass < 2; ++pass) {  // the first pass leaves an error of rounding times the condition of X
            Small products, factor;
            project_out(X, S.trivial.data());
            inner_products(X, X, products);
            if (!orthonormalizing_factor(products, factor)) return false;
            multiply(X, factor);
        }
        return true;
    }

    SV_INLINE void rotate_to_ritz_vectors() {
        std::fill(LX.data.begin(), LX.data.end(), 0.0);
        filter_step(S, X, 1, 1, 0, LX);
        Small H, Q;
        inner_products(X, LX, H);
        eigen_decomposition<columns>(H, accuracy, ritz, Q);
        multiply(X, Q);
        multiply(LX, Q);
        Four squares[V] = {}, values[V];
        std::memcpy(values, ritz, sizeof(ritz));
        for (int64_t i = 0; i < S.rows; ++i)
            for (int v = 0; v < V; ++v) {
                const Four rest = LX.row(i)[v] - values[v] * X.row(i)[v];
                squares[v] += rest * rest;
            }
        for (int64_t j = 0; j < columns; ++j) residuals[j] = std::sqrt(squares[j / 4][j % 4]);
        // One round lowers residuals by at most e^-stretch, so the next rotation needs no more accuracy than this.
        const double lowest = *std::min_element(residuals, residuals + columns);
        accuracy = std::clamp(lowest * 1e-6, 1e-17, 1e-6);
    }

    // A residual as a multiple of what is allowed.
    SV_INLINE double excess(const sv_eigen_options& o, int64_t i) const {
        double gap = ritz[i + 1] - ritz[i];
        if (i) gap = std::min(gap, ritz[i] - ritz[i - 1]);
        if (!must_be_accurate(o, i)) return residuals[i] / guard_residual;
        return residuals[i] / std::clamp(vector_error * gap, rounding, largest_residual);
    }

    SV_INLINE double worst_excess(const sv_eigen_options& o) const {
        double worst = 0;
        for (int64_t i = 0; i < o.count; ++i) {
            const double e = excess(o, i);
            if (std::isnan(e)) return e;
            worst = std::max(worst, e);
        }
        return worst;
    }

    SV_INLINE bool at_rounding(const sv_eigen_options& o) const {
        for (int64_t i = 0; i < o.count; ++i)
            if (residuals[i] > (must_be_accurate(o, i) ? 10 * rounding : guard_residual)) return false;
        return true;
    }

    SV_INLINE bool must_be_accurate(const sv_eigen_options& o, int64_t i) const {
        return i < o.wanted || ritz[i] - ritz[o.wanted - 1] <= 10 * o.cluster;
    }

    // X ← p(L) X with |p| ≤ 1 between the largest Ritz value and 2, the end of the spectrum, by the scaled recurrence.
    // The degree is what the stretch `limit` allows, or less if the wanted pairs need less.
    SV_INLINE int64_t filter(const sv_eigen_options& o, double limit, int64_t budget) {
        const double cut = std::clamp(ritz[columns - 1], 1e-6, 1.9);
        const double center = (2 + cut) / 2, half = (2 - cut) / 2, start = -half / center;
        double needed = 0;
        for (int64_t i = 0; i < o.count; ++i)
            if (double e = excess(o, i); e > 1) {
                const double position = std::max((center - ritz[i]) / half, 1 + 1e-9);
                needed = std::max(needed, std::acosh(3 * e) / std::acosh(position));
            }
        const double allowed = limit / std::acosh(center / half);
        const int64_t degree = std::clamp<int64_t>(int64_t(std::ceil(std::min(needed, allowed))), 2, budget + 2);
        double sigma = start;
        for (int64_t i = 0; i < S.rows; ++i)
            for (int v = 0; v < V; ++v) LX.row(i)[v] = (LX.row(i)[v] - center * X.row(i)[v]) * (sigma / half);
        Block<V>*current = &LX, *previous = &X;
        for (int64_t step = 1; step < degree; ++step) {
            const double next = 1 / (2 / start - sigma);
            filter_step(S, *current, 1 - center, 2 * next / half, sigma * next, *previous);
            std::swap(current, previous);
            sigma = next;
        }
        if (current != &X) std::swap(X.data, LX.data);
        return degree - 1;
    }

    SV_INLINE void store(const sv_eigen_options& o, Result result) const {
        for (int64_t j = 0; j < o.count; ++j) {
            result.values[j] = ritz[j];
            result.residuals[j] = residuals[j];
            for (int64_t i = 0; i < S.rows; ++i) result.vectors[j * S.rows + i] = X.row(i)[j / 4][j % 4];
        }
    }
};

#define SV_SOLVE(vectors)                                                                          \
    SV_CLONES int32_t solve_##vectors(const Sparse& S, const sv_eigen_options& o, Result result) { \
        return Solver<vectors>(S).solve(o, result);                                                \
    }
SV_SOLVE(2)
SV_SOLVE(3)
SV_SOLVE(4)
SV_SOLVE(5)
SV_SOLVE(8)

struct Width {
    int64_t wanted, columns;
    int32_t (*solve)(const Sparse&, const sv_eigen_options&, Result);
};
// A little more than twice the wanted pairs: narrower blocks converge more slowly, wider ones cost more per product.
constexpr Width widths[] = {{2, 8, solve_2}, {4, 12, solve_3}, {6, 16, solve_4}, {8, 20, solve_5}, {14, 32, solve_8}};
// The eigenvalues of small graphs are far apart, and a narrow block is enough.
constexpr int64_t small_graph = 128;
constexpr Width narrow{4, 8, solve_2};

const Width* width_for(const sv_eigen_options& o) {
    if (o.tokens <= small_graph && o.wanted <= narrow.wanted && o.count < narrow.columns) return &narrow;
    for (const Width& width : widths)
        if (o.wanted <= width.wanted && o.count < width.columns) return &width;
    return nullptr;
}

// The graph of one image of the batch.
struct Nodes {
    int64_t count, tokens;
    const int64_t* offsets;
    const int32_t *owner, *sizes, *columns;
    const double* weights;
};

Nodes nodes_of(const sv_graph_arrays& g, int64_t image, int64_t tokens) {
    return {g.nodes[image], tokens, g.offsets + image * (tokens + 1), g.owner + image * tokens,
            g.sizes + image * tokens, g.columns, g.weights};
}

Sparse normalized_adjacency(const Nodes& nodes) {
    const int64_t* offsets = nodes.offsets;
    std::vector<double> degree(nodes.count);  // of one token
    double total = 0;
    for (int64_t i = 0; i < nodes.count; ++i) {
        degree[i] = nodes.sizes[i] - 1;
        for (int64_t e = offsets[i]; e < offsets[i + 1]; ++e)
            degree[i] += nodes.weights[e] * nodes.sizes[nodes.columns[e]];
        total += degree[i] * nodes.sizes[i];
    }
    Sparse S{nodes.count, offsets, nodes.columns, {}, {}, {}};
    S.entries.reserve(offsets[nodes.count] - offsets[0]);
    for (int64_t i = 0; i < nodes.count; ++i) {
        for (int64_t e = offsets[i]; e < offsets[i + 1]; ++e) {
            const int64_t j = nodes.columns[e];
            const double sizes = double(nodes.sizes[i]) * nodes.sizes[j];
            S.entries.push_back(nodes.weights[e] * std::sqrt(sizes / (degree[i] * degree[j])));
        }
        S.diagonal.push_back((nodes.sizes[i] - 1) / degree[i]);
        S.trivial.push_back(std::sqrt(degree[i] * nodes.sizes[i] / total));
    }
    return S;
}

// From nodes to tokens: out[t] = vector[owner of t] / √(size of its node)
void expand_to_tokens(const Nodes& nodes, const double* vector, double* out) {
    for (int64_t token = 0; token < nodes.tokens; ++token) {
        const int32_t node = nodes.owner[token];
        out[token] = vector[node] / std::sqrt(double(nodes.sizes[node]));
    }
}

int32_t solve_image(const Nodes& nodes, const Width& width, const sv_eigen_options& o, Result result, double* trivial) {
    const Sparse S = normalized_adjacency(nodes);
    expand_to_tokens(nodes, S.trivial.data(), trivial);
    if (nodes.count <= width.columns + 1) return -1;
    std::vector<double> vectors(o.count * nodes.count);
    const int32_t rounds = width.solve(S, o, {result.values, vectors.data(), result.residuals, result.products});
    if (rounds < 0) return rounds;
    for (int64_t j = 0; j < o.count; ++j)
        expand_to_tokens(nodes, vectors.data() + j * nodes.count, result.vectors + j * nodes.tokens);
    // Differences between equal tokens are eigenvectors with eigenvalues above 1. If the results reach 1, some of these
    // may be among the wanted pairs.
    return nodes.count < nodes.tokens && result.values[o.count - 1] >= 1 ? -1 : rounds;
}

int smallest_eigenpairs(const sv_eigen_options& o, const sv_graph_arrays& graphs, Result result, double* trivial,
                        int32_t* rounds) {
    const Width* width = width_for(o);
    if (o.wanted < 1 || o.count < o.wanted || width == nullptr) return SV_BAD_INPUT;
    Failures failures;
#pragma omp parallel for num_threads(o.threads) schedule(dynamic)
    for (int64_t image = 0; image < o.images; ++image)
        failures.catch_in([&] {
            const Result of_image{result.values + image * o.count, result.vectors + image * o.count * o.tokens,
                                  result.residuals + image * o.count, result.products + image};
            const Nodes nodes = nodes_of(graphs, image, o.tokens);
            rounds[image] = solve_image(nodes, *width, o, of_image, trivial + image * o.tokens);
        });
    failures.rethrow();
    return SV_OK;
}

}  // namespace
}  // namespace sv

int64_t sv_most_eigenvectors() { return std::end(sv::widths)[-1].wanted; }

int sv_smallest_eigenpairs(const sv_eigen_options* options, const sv_graph_arrays* graphs, double* values,
                           double* vectors, double* residuals, double* trivial, int32_t* rounds, int32_t* products) {
    return sv::guarded(
        [&] {
            return sv::smallest_eigenpairs(*options, *graphs, {values, vectors, residuals, products}, trivial, rounds);
        });
}
