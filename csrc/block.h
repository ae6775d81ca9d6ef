// A block: several vectors over the nodes of a graph, stored side by side as (rows, 4 · V), so that each matrix entry
// is multiplied with all of them in a few vector registers. Also the small matrices that products of blocks give.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "platform.h"

namespace sv {

// Four doubles at any place in an array of doubles. (A std::vector of a vector type would lose the type's alignment.)
typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
constexpr int64_t max_columns = 32;

struct Small {  // a small square matrix
    int64_t size;
    alignas(32) double at[max_columns][max_columns];
};

template <int V>
struct Block {
    static constexpr int64_t columns = 4 * V;
    int64_t rows;
    std::vector<double> data;

    explicit Block(int64_t rows) : rows(rows), data(rows * columns) {}
    SV_INLINE Four* row(int64_t i) { return reinterpret_cast<Four*>(data.data() + i * columns); }
    SV_INLINE const Four* row(int64_t i) const { return reinterpret_cast<const Four*>(data.data() + i * columns); }
};

// Xᵀ Y, four rows of the result at a time: as many sums as fit into the registers.
template <int V>
SV_INLINE void inner_products(const Block<V>& X, const Block<V>& Y, Small& result) {
    result.size = Block<V>::columns;
    for (int a = 0; a < V; ++a) {
        Four sums[4][V] = {};
        for (int64_t i = 0; i < X.rows; ++i) {
            const Four left = X.row(i)[a], *right = Y.row(i);
            for (int v = 0; v < V; ++v)
                for (int lane = 0; lane < 4; ++lane) sums[lane][v] += left[lane] * right[v];
        }
        for (int lane = 0; lane < 4; ++lane)
            for (int v = 0; v < V; ++v)
                for (int k = 0; k < 4; ++k) result.at[4 * a + lane][4 * v + k] = sums[lane][v][k];
    }
}

// X ← X M
template <int V>
SV_INLINE void multiply(Block<V>& X, const Small& M) {
    for (int64_t i = 0; i < X.rows; ++i) {
        Four out[V] = {}, *row = X.row(i);
        for (int a = 0; a < V; ++a)
            for (int lane = 0; lane < 4; ++lane) {
                const Four* M_row = reinterpret_cast<const Four*>(M.at[4 * a + lane]);
                for (int v = 0; v < V; ++v) out[v] += row[a][lane] * M_row[v];
            }
        for (int v = 0; v < V; ++v) row[v] = out[v];
    }
}

// X ← X − u uᵀ X
template <int V>
SV_INLINE void project_out(Block<V>& X, const double* u) {
    Four along[V] = {};
    for (int64_t i = 0; i < X.rows; ++i)
        for (int v = 0; v < V; ++v) along[v] += u[i] * X.row(i)[v];
    for (int64_t i = 0; i < X.rows; ++i)
        for (int v = 0; v < V; ++v) X.row(i)[v] -= u[i] * along[v];
}

// M such that X M has orthonormal columns, given G = Xᵀ X: the inverse of the Cholesky factor of G. Columns are first
// scaled to length one, because a filter stretches them very differently. Returns false if they are dependent.
SV_INLINE bool orthonormalizing_factor(const Small& G, Small& M) {
    const int64_t n = M.size = G.size;
    double scale[max_columns], R[max_columns][max_columns];
    for (int64_t i = 0; i < n; ++i) {
        if (!(G.at[i][i] > 0) || !std::isfinite(G.at[i][i])) return false;
        scale[i] = 1 / std::sqrt(G.at[i][i]);
    }
    for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i <= j; ++i) {
            double rest = G.at[i][j] * scale[i] * scale[j];
            for (int64_t k = 0; k < i; ++k) rest -= R[k][i] * R[k][j];
            if (i < j) {
                R[i][j] = rest / R[i][i];
            } else if (rest > 1e-13) {
                R[j][j] = std::sqrt(rest);
            } else {
                return false;
            }
        }
    for (int64_t j = 0; j < n; ++j)
        for (int64_t i = n - 1; i >= 0; --i) {
            double rest = i == j ? 1 : 0;
            for (int64_t k = i + 1; k <= j; ++k) rest -= R[i][k] * M.at[k][j] / scale[k];
            M.at[i][j] = i <= j ? rest / R[i][i] * scale[i] : 0;
        }
    return true;
}

// The indices of the values, ascending by value. Not inlined: one copy serves all sizes.
inline __attribute__((noinline)) void sort_indices(const double* values, int64_t count, int64_t* indices) {
    for (int64_t i = 0; i < count; ++i) indices[i] = i;
    std::sort(indices, indices + count, [&](int64_t a, int64_t b) { return values[a] < values[b]; });
}

// H = Q diag(values) Qᵀ with ascending values, by Jacobi rotations, until no off-diagonal entry is larger than
// `accuracy`. H is overwritten.
template <int64_t n>
SV_INLINE void eigen_decomposition(Small& H, double accuracy, double* values, Small& Q) {
    Q.size = n;
    double V[n][n] = {};
    for (int64_t i = 0; i < n; ++i) V[i][i] = 1;  // eigenvectors as rows
    for (int sweep = 0; sweep < 30; ++sweep) {
        double largest = 0;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = i + 1; j < n; ++j) {
                H.at[i][j] = H.at[j][i] = (H.at[i][j] + H.at[j][i]) / 2;
                largest = std::max(largest, std::fabs(H.at[i][j]));
            }
        if (!(largest > accuracy)) break;
        for (int64_t p = 0; p < n - 1; ++p)
            for (int64_t q = p + 1; q < n; ++q) {
                const double coupling = H.at[p][q];
                if (std::fabs(coupling) <= accuracy / 2) continue;
                const double ratio = (H.at[q][q] - H.at[p][p]) / (2 * coupling);
                const double t = (ratio < 0 ? -1 : 1) / (std::fabs(ratio) + std::sqrt(1 + ratio * ratio));
                const double c = 1 / std::sqrt(1 + t * t), s = t * c;
                for (int64_t k = 0; k < n; ++k) {
                    double a = H.at[p][k], b = H.at[q][k];
                    H.at[p][k] = c * a - s * b;
                    H.at[q][k] = s * a + c * b;
                    a = V[p][k], b = V[q][k];
                    V[p][k] = c * a - s * b;
                    V[q][k] = s * a + c * b;
                }
                for (int64_t k = 0; k < n; ++k) {
                    const double a = H.at[k][p], b = H.at[k][q];
                    H.at[k][p] = c * a - s * b;
                    H.at[k][q] = s * a + c * b;
                }
            }
    }
    double diagonal[n];
    int64_t ascending[n];
    for (int64_t i = 0; i < n; ++i) diagonal[i] = H.at[i][i];
    sort_indices(diagonal, n, ascending);
    for (int64_t j = 0; j < n; ++j) {
        values[j] = diagonal[ascending[j]];
        for (int64_t k = 0; k < n; ++k) Q.at[k][j] = V[ascending[j]][k];
    }
}

}  // namespace sv
