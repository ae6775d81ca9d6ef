// All pairs of tokens are compared once, by ‖a‖² + ‖b‖² − 2 a·b: half the work of a sum of squared differences, and its
// rounding is bounded. Pairs that may be neighbors are candidates; their distances are computed again as sums of squared
// differences, like all distances of a graph.
#include "neighbors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "guard.h"

namespace sv {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr int64_t strip = 4;       // tokens that are compared together with others: as many sums as registers hold
constexpr int64_t section = 512;  // of the tokens, in whole groups, whose rows stay in the cache

// Squared distances from tokens first, first + 1, … to those from `begin` up to `end`, both multiples of a group.
// out (strip, section). Distances within rounding are 0. Entries of and past the last token are undefined.
SV_CLONES void compare(const Tokens& tokens, int64_t first, int64_t begin, int64_t end, double same, double* out) {
    const int64_t channels = tokens.channels;
    int64_t token[strip];
    const double* from[strip];
    for (int64_t i = 0; i < strip; ++i) {
        token[i] = std::min(first + i, tokens.count - 1);
        from[i] = tokens.rows.data() + token[i] * channels;
    }
    for (int64_t block = begin; block < end; block += Tokens::group) {
        const double *to = tokens.packed.data() + block * channels, *norms = tokens.norms.data() + block;
        Lanes low[strip] = {}, high[strip] = {};
        for (int64_t c = 0; c < channels; ++c) {
            Lanes to_low, to_high;
            std::memcpy(&to_low, to + c * Tokens::group, sizeof(Lanes));
            std::memcpy(&to_high, to + c * Tokens::group + 4, sizeof(Lanes));
            for (int64_t i = 0; i < strip; ++i) {
                low[i] += to_low * from[i][c];
                high[i] += to_high * from[i][c];
            }
        }
        Lanes norms_low, norms_high;
        std::memcpy(&norms_low, norms, sizeof(Lanes));
        std::memcpy(&norms_high, norms + 4, sizeof(Lanes));
        for (int64_t i = 0; i < strip; ++i) {
            const double norm = tokens.norms[token[i]];
            const Lanes sum_low = norms_low + norm, sum_high = norms_high + norm;
            const Lanes squared_low = sum_low - 2 * low[i], squared_high = sum_high - 2 * high[i];
            const Lanes out_low = squared_low > same * sum_low ? squared_low : Lanes{};
            const Lanes out_high = squared_high > same * sum_high ? squared_high : Lanes{};
            std::memcpy(out + i * section + block - begin, &out_low, sizeof(Lanes));
            std::memcpy(out + i * section + block - begin + 4, &out_high, sizeof(Lanes));
        }
    }
}

// A bound on the mean distance σ of all pairs: it is at most the mean of ‖a‖ + ‖b‖.
double largest_mean(const Tokens& tokens, int64_t all) {
    double sum = 0;
    for (int64_t i = 0; i < tokens.count; ++i) sum += std::sqrt(tokens.norms[i]) * tokens.sizes[i];
    return 2 * sum / double(all - 1);
}

// A bound on the difference between the two ways to compute a squared distance: a sum of `channels` products rounds by
// at most channels · ε / 2 of the sum of their absolute values, which is at most 4 · largest_norm.
double rounding(const Tokens& tokens) {
    return double(2 * tokens.channels + 16) * std::numeric_limits<double>::epsilon() * 4 * tokens.largest_norm;
}

SV_CLONES double sum_of_roots(const double* squared, const int32_t* sizes, int64_t count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += std::sqrt(squared[i]) * sizes[i];
    return sum;
}

// The first place from `begin` on, in steps of a group, at which some distance is not above both limits.
SV_CLONES int64_t next_group(const double* squared, const double* limits, double limit, int64_t begin, int64_t end) {
    for (; begin + Tokens::group <= end; begin += Tokens::group) {
        int64_t near = 0;
#pragma omp simd reduction(| : near)
        for (int64_t j = begin; j < begin + Tokens::group; ++j)
            near |= int64_t(squared[j] <= limit) | int64_t(squared[j] <= limits[j]);
        if (near) break;
    }
    return begin;
}

// The pairs that may be neighbors: each at most `slack` farther than the k-th nearest that its token had so far.
class Candidates {
  public:
    std::vector<double> limits;  // (padded)
    std::vector<Edge> edges;

    Candidates(const Tokens& tokens, int64_t k, double slack)
        : limits(tokens.padded, infinite), tokens(tokens), k(k), slack(slack), nearest(tokens.count * k, infinite) {
        for (int64_t token = 0; token < tokens.count; ++token) insert(token, 0, tokens.sizes[token] - 1);
    }

    void add(int64_t token, int64_t other, double squared) {
        if (squared > limits[token]) return;
        if (edges.size() == enough) remove_distant();
        edges.push_back({int32_t(token), int32_t(other), squared});
        insert(token, squared, tokens.sizes[other]);
    }

  private:
    // Candidates of the beginning, when limits were wide: tokens may come nearer and nearer in raster order.
    void remove_distant() {
        std::erase_if(edges, [&](const Edge& edge) { return edge.squared > limits[edge.from]; });
        enough = std::max(enough, 2 * edges.size());
    }

    // Into the k smallest distances so far, `copies` times.
    void insert(int64_t token, double squared, int64_t copies) {
        double* best = nearest.data() + token * k;
        for (; copies > 0 && squared < best[k - 1]; --copies) {
            double value = squared;  // without branches, which would be mispredicted
            for (int64_t place = 0; place < k; ++place) {
                const double smaller = value < best[place] ? value : best[place];
                value = value < best[place] ? best[place] : value;
                best[place] = smaller;
            }
        }
        limits[token] = best[k - 1] + slack;
    }

    const Tokens& tokens;
    int64_t k;
    double slack;
    size_t enough = size_t(1) << 20;
    std::vector<double> nearest;  // (count, k), ascending
};

// Compares the tokens of one strip with the later ones of a section. buffer (strip, section).
void search(const Tokens& tokens, int64_t first, int64_t begin, double same, double* buffer, Candidates& candidates,
            double* sums) {
    const int64_t end = std::min(begin + section, tokens.padded), last = std::min(end, tokens.count);
    begin = std::max(begin, first / Tokens::group * Tokens::group);
    compare(tokens, first, begin, end, same, buffer);
    for (int64_t token = first; token < std::min(first + strip, tokens.count); ++token) {
        const double* row = buffer + (token - first) * section - begin;
        int64_t other = std::max(begin, token + 1);
        if (other < last) sums[token] += sum_of_roots(row + other, tokens.sizes.data() + other, last - other);
        while (other < last) {
            if (other % Tokens::group == 0)
                other = next_group(row, candidates.limits.data(), candidates.limits[token], other, last);
            for (const int64_t stop = std::min(other / Tokens::group * Tokens::group + Tokens::group, last);
                 other < stop; ++other) {
                candidates.add(token, other, row[other]);
                candidates.add(other, token, row[other]);
            }
        }
    }
}

// Compiled like the rows of distances.h, so that it gives the same bits.
SV_CLONES void compute_exactly(const Tokens& tokens, double same, std::vector<Edge>& edges) {
    for (Edge& edge : edges) edge.squared = squared_distance(tokens, edge.from, edge.to, same);
}

// The candidates of all threads, without those that are farther than any thread's limit, sorted by both ends.
std::vector<Edge> merge(std::vector<Candidates>& found, int64_t count) {
    std::vector<double>& limits = found[0].limits;
    for (const Candidates& each : found)
        for (int64_t token = 0; token < count; ++token) limits[token] = std::min(limits[token], each.limits[token]);
    std::vector<int64_t> next(count + 1);
    auto is_near = [&](const Edge& edge) { return edge.squared <= limits[edge.from]; };
    for (const Candidates& each : found)
        for (const Edge& edge : each.edges) next[edge.from + 1] += is_near(edge);
    std::partial_sum(next.begin(), next.end(), next.begin());
    std::vector<Edge> sorted(next.back());
    for (const Candidates& each : found)
        for (const Edge& edge : each.edges)
            if (is_near(edge)) sorted[next[edge.from]++] = edge;
    for (int64_t token = 0, begin = 0; token < count; begin = next[token++])
        std::sort(sorted.begin() + begin, sorted.begin() + next[token],
                  [](const Edge& a, const Edge& b) { return a.to < b.to; });
    return sorted;
}

// For each token, the distance to its k-th nearest, by edges that are sorted by their first end.
std::vector<double> kth_nearest(const Tokens& tokens, const std::vector<Edge>& edges, int64_t k) {
    std::vector<double> result(tokens.count);
    std::vector<Edge> own;
    for (auto begin = edges.begin(); begin != edges.end();) {
        const int32_t token = begin->from;
        auto end = std::find_if(begin, edges.end(), [&](const Edge& edge) { return edge.from != token; });
        own.assign(begin, end);
        std::sort(own.begin(), own.end(), [](const Edge& a, const Edge& b) { return a.squared < b.squared; });
        int64_t nearer = tokens.sizes[token] - 1;
        for (auto edge = own.begin(); nearer < k; ++edge) {
            nearer += tokens.sizes[edge->to];
            result[token] = edge->squared;
        }
        begin = end;
    }
    return result;
}

}  // namespace

Neighborhood nearest_neighbors(const Tokens& tokens, const sv_graph_options& o, int threads) {
    const int64_t strips = (tokens.count + strip - 1) / strip;
    // Whether distances are tied depends on σ, which is known only after all pairs.
    const double mean = largest_mean(tokens, o.tokens);
    const double slack = o.tie * mean * mean + o.same * 2 * tokens.largest_norm + 2 * rounding(tokens);
    std::vector<double> sums(tokens.count);
    std::vector<Candidates> found(threads, Candidates(tokens, o.neighbors, slack));
    Failures failures;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int part = 0; part < threads; ++part)
        failures.catch_in([&] {
            std::vector<double> buffer(strip * section);
            // Threads take turns: the first strips are compared with more tokens than the last ones. Downward, so that
            // limits are narrow early where neighbors in the image are alike.
            for (int64_t begin = 0; begin < tokens.count; begin += section) {
                const int64_t end = std::min(strips, (begin + section) / strip);
                for (int64_t each = end - 1 - (end - 1 - part + threads) % threads; each >= 0; each -= threads)
                    search(tokens, each * strip, begin, o.same, buffer.data(), found[part], sums.data());
            }
        });
    failures.rethrow();
    double sum = 0;
    for (int64_t token = 0; token < tokens.count; ++token) sum += 2 * sums[token] * tokens.sizes[token];
    Neighborhood result{merge(found, tokens.count), sum / double(o.tokens * (o.tokens - 1))};
    compute_exactly(tokens, o.same, result.edges);
    const std::vector<double> last = kth_nearest(tokens, result.edges, o.neighbors);
    const double tied = o.tie * result.mean * result.mean;
    std::erase_if(result.edges, [&](const Edge& edge) { return edge.squared > last[edge.from] + tied; });
    return result;
}

}  // namespace sv
