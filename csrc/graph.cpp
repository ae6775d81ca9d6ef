#include "graph.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>

#include "distances.h"
#include "guard.h"
#include "neighbors.h"
#include "scratch.h"

namespace sv {
namespace {

constexpr int64_t largest_in_cache = 4096;
constexpr int64_t smallest_shared = 1024;  // tokens of an image that threads share: below, they take longer to start
constexpr double infinite = std::numeric_limits<double>::infinity();

struct Graph {
    std::vector<int32_t> owner, sizes;
    std::vector<int64_t> offsets;
    std::vector<int32_t> columns;
    std::vector<double> weights;
};

SV_CLONES void four_rows(const Tokens& tokens, int64_t first, double same, double* out) {
    squared_distances<4>(tokens, first, same, out);
}

SV_CLONES void one_row(const Tokens& tokens, int64_t token, double same, double* out) {
    squared_distances<1>(tokens, token, same, out);
}

// The distances from each token to all others: stored if they fit, because a single row takes several times as long as
// its share of a strip; otherwise computed on request.
class Distances {
  public:
    const Tokens& tokens;

    Distances(const Tokens& tokens, double same, int threads)
        : tokens(tokens), same(same), stores_all(tokens.count * tokens.padded <= largest_stored),
          memory(allocate_scratch<double>((stores_all ? tokens.count : strip) * tokens.padded)) {
        expect_large(memory.get(), (stores_all ? tokens.count : strip) * tokens.padded * int64_t(sizeof(double)));
        const int64_t strips = stores_all ? (tokens.count + strip - 1) / strip : 0;
#pragma omp parallel for num_threads(threads)
        for (int64_t each = 0; each < strips; ++each)
            compute_strip(each * strip, memory.get() + each * strip * tokens.padded);
    }

    const double* row_in_any_order(int64_t token) {
        if (stores_all) return stored(token);
        one_row(tokens, token, same, memory.get());
        return memory.get();
    }

    // Tokens 0, 1, 2, … one after the other.
    const double* next_row(int64_t token) {
        if (stores_all) return stored(token);
        if (token % strip == 0) compute_strip(token, memory.get());
        return memory.get() + token % strip * tokens.padded;
    }

  private:
    static constexpr int64_t strip = 4, largest_stored = 1 << 24;  // 128 MB

    void compute_strip(int64_t first, double* out) {
        const int64_t number = std::min(strip, tokens.count - first);
        if (number == strip)
            four_rows(tokens, first, same, out);
        else
            for (int64_t i = 0; i < number; ++i) one_row(tokens, first + i, same, out + i * tokens.padded);
    }

    const double* stored(int64_t token) const { return memory.get() + token * tokens.padded; }

    double same;
    bool stores_all;
    Scratch<double> memory;
};

bool is_connected(const std::vector<Edge>& edges, int64_t count) {
    std::vector<int32_t> parent(count);
    std::iota(parent.begin(), parent.end(), 0);
    auto root = [&](int32_t token) {
        while (parent[token] != token) token = parent[token] = parent[parent[token]];
        return token;
    };
    int64_t components = count;
    for (const Edge& edge : edges) {
        int32_t a = root(edge.from), b = root(edge.to);
        if (a == b) continue;
        parent[a] = b;
        --components;
    }
    return components == 1;
}

// The tokens in the order in which a minimum spanning tree grows (Prim), and the squared length of the edge by which
// each of them joins the tree. The longest edge on the tree path between two tokens is the longest one by which the
// later token, or any token between the two, joins.
struct SpanningOrder {
    std::vector<int32_t> tokens;
    std::vector<double> joins;
};

// nearest ← min(nearest, row), and the smallest of it, without tokens in the tree, whose entry is −∞.
SV_CLONES double update_nearest(const double* row, double* nearest, int64_t count) {
    double smallest = infinite;
#pragma omp simd reduction(min : smallest)
    for (int64_t j = 0; j < count; ++j) {
        nearest[j] = row[j] < nearest[j] ? row[j] : nearest[j];
        const double outside = nearest[j] < 0 ? infinite : nearest[j];
        smallest = outside < smallest ? outside : smallest;
    }
    return smallest;
}

SpanningOrder spanning_order(Distances& distances) {
    const int64_t count = distances.tokens.count;
    std::vector<double> nearest(count, infinite);
    SpanningOrder order{{0}, {0}};
    while (int64_t(order.tokens.size()) < count) {
        nearest[order.tokens.back()] = -infinite;
        const double* row = distances.row_in_any_order(order.tokens.back());
        const double smallest = update_nearest(row, nearest.data(), count);
        order.tokens.push_back(int32_t(std::find(nearest.begin(), nearest.end(), smallest) - nearest.begin()));
        order.joins.push_back(smallest);
    }
    return order;
}

// Adds every edge that belongs to some minimum spanning tree: those no longer than the longest edge on the tree path
// between their ends. Edges are sorted by their first end, then by their second, in the input and in the result.
std::vector<Edge> with_spanning_edges(const std::vector<Edge>& edges, Distances& distances, double slack) {
    const int64_t count = distances.tokens.count;
    const SpanningOrder order = spanning_order(distances);
    std::vector<int64_t> place(count);
    for (int64_t i = 0; i < count; ++i) place[order.tokens[i]] = i;
    std::vector<Edge> spanning, all;
    for (int64_t source = 0; source < count; ++source) {
        const double* row = distances.next_row(source);
        double longest = 0;
        for (int64_t i = place[source] + 1; i < count; ++i) {
            const int32_t token = order.tokens[i];
            longest = std::max(longest, order.joins[i]);
            if (row[token] > longest + slack) continue;
            spanning.push_back({int32_t(source), token, row[token]});
            spanning.push_back({token, int32_t(source), row[token]});
        }
    }
    auto ends = [](const Edge& edge) { return std::pair(edge.from, edge.to); };
    auto before = [&](const Edge& a, const Edge& b) { return ends(a) < ends(b); };
    std::sort(spanning.begin(), spanning.end(), before);
    std::set_union(edges.begin(), edges.end(), spanning.begin(), spanning.end(), std::back_inserter(all), before);
    return all;
}

// The symmetric graph of these edges, which are sorted by their first end, then by their second. Each row merges the
// outgoing and the incoming edges of a token. An edge found from both sides has exactly the same length in both.
Graph symmetric_graph(const Tokens& tokens, const std::vector<Edge>& edges, double mean, double weakest) {
    const int64_t count = tokens.count;
    const double scale = mean > 0 ? 2 * mean * mean : 1;
    std::vector<int64_t> outgoing(count + 1), incoming(count + 1);
    for (const Edge& edge : edges) ++outgoing[edge.from + 1], ++incoming[edge.to + 1];
    std::partial_sum(outgoing.begin(), outgoing.end(), outgoing.begin());
    std::partial_sum(incoming.begin(), incoming.end(), incoming.begin());
    std::vector<Edge> reversed(edges.size());
    std::vector<int64_t> next(incoming.begin(), incoming.end() - 1);
    for (const Edge& edge : edges) reversed[next[edge.to]++] = {edge.to, edge.from, edge.squared};

    Graph graph{tokens.owner, tokens.sizes, {0}, {}, {}};
    graph.offsets.reserve(count + 1);
    graph.columns.reserve(2 * edges.size());
    graph.weights.reserve(2 * edges.size());
    for (int64_t token = 0; token < count; ++token) {
        auto a = edges.begin() + outgoing[token], a_end = edges.begin() + outgoing[token + 1];
        auto b = reversed.begin() + incoming[token], b_end = reversed.begin() + incoming[token + 1];
        while (a != a_end || b != b_end) {
            const bool is_outgoing = b == b_end || (a != a_end && a->to <= b->to);
            const Edge& edge = is_outgoing ? *a++ : *b++;
            if (is_outgoing && b != b_end && b->to == edge.to) ++b;
            graph.columns.push_back(edge.to);
            graph.weights.push_back(std::max(std::exp(-edge.squared / scale), weakest));
        }
        graph.offsets.push_back(int64_t(graph.columns.size()));
    }
    return graph;
}

// Renumbers the nodes in breadth-first order. Neighbors are then close to each other in memory, which matters once a
// block of vectors is larger than the cache.
Graph in_breadth_first_order(const Graph& graph) {
    const int64_t count = int64_t(graph.sizes.size());
    std::vector<int32_t> order, number(count, -1);
    order.reserve(count);
    for (int64_t root = 0; root < count; ++root) {
        if (number[root] >= 0) continue;
        number[root] = int32_t(order.size());
        order.push_back(int32_t(root));
        for (size_t next = order.size() - 1; next < order.size(); ++next)
            for (int64_t e = graph.offsets[order[next]]; e < graph.offsets[order[next] + 1]; ++e)
                if (int32_t node = graph.columns[e]; number[node] < 0) {
                    number[node] = int32_t(order.size());
                    order.push_back(node);
                }
    }
    Graph result{{}, {}, {0}, {}, {}};
    for (int32_t owner : graph.owner) result.owner.push_back(number[owner]);
    std::vector<std::pair<int32_t, double>> row;
    for (int32_t node : order) {
        row.clear();
        for (int64_t e = graph.offsets[node]; e < graph.offsets[node + 1]; ++e)
            row.push_back({number[graph.columns[e]], graph.weights[e]});
        std::sort(row.begin(), row.end());
        for (auto [column, weight] : row) {
            result.columns.push_back(column);
            result.weights.push_back(weight);
        }
        result.sizes.push_back(graph.sizes[node]);
        result.offsets.push_back(int64_t(result.columns.size()));
    }
    return result;
}

Graph neighbor_graph(const double* features, const sv_graph_options& o, int threads) {
    const Tokens tokens(features, o.tokens, o.channels);
    Neighborhood nearest = nearest_neighbors(tokens, o, threads);
    if (!is_connected(nearest.edges, tokens.count)) {
        Distances distances(tokens, o.same, threads);
        nearest.edges = with_spanning_edges(nearest.edges, distances, o.tie * nearest.mean * nearest.mean);
    }
    Graph graph = symmetric_graph(tokens, nearest.edges, nearest.mean, o.weakest);
    return tokens.count > largest_in_cache ? in_breadth_first_order(graph) : graph;
}

}  // namespace
}  // namespace sv

struct sv_graphs {
    std::vector<sv::Graph> images;
};

int sv_neighbor_graphs(const sv_graph_options* options, const double* features, sv_graphs** graphs) {
    return sv::guarded([&]() -> int {
        const sv_graph_options& o = *options;
        if (o.neighbors < 1 || o.neighbors >= o.tokens - 1) return SV_BAD_INPUT;
        auto result = std::make_unique<sv_graphs>();
        result->images.resize(o.images);
        auto build = [&](int64_t image, int threads) {
            result->images[image] = sv::neighbor_graph(features + image * o.tokens * o.channels, o, threads);
        };
        if (o.images < o.threads && o.tokens >= sv::smallest_shared) {
            for (int64_t image = 0; image < o.images; ++image) build(image, o.threads);
        } else {
            sv::Failures failures;
#pragma omp parallel for num_threads(o.threads) schedule(dynamic)
            for (int64_t image = 0; image < o.images; ++image) failures.catch_in([&] { build(image, 1); });
            failures.rethrow();
        }
        *graphs = result.release();
        return SV_OK;
    });
}

int64_t sv_graphs_entries(const sv_graphs* graphs) {
    int64_t entries = 0;
    for (const sv::Graph& graph : graphs->images) entries += int64_t(graph.columns.size());
    return entries;
}

void sv_graphs_copy(const sv_graphs* graphs, const sv_graph_arrays* arrays) {
    sv_graph_arrays out = *arrays;
    int64_t before = 0;
    for (const sv::Graph& graph : graphs->images) {
        const size_t tokens = graph.owner.size(), nodes = graph.sizes.size();
        *out.nodes++ = int64_t(nodes);
        out.owner = std::copy(graph.owner.begin(), graph.owner.end(), out.owner);
        out.sizes = std::fill_n(std::copy(graph.sizes.begin(), graph.sizes.end(), out.sizes), tokens - nodes, 0);
        for (size_t row = 0; row <= tokens; ++row) *out.offsets++ = before + graph.offsets[std::min(row, nodes)];
        out.columns = std::copy(graph.columns.begin(), graph.columns.end(), out.columns);
        out.weights = std::copy(graph.weights.begin(), graph.weights.end(), out.weights);
        before += int64_t(graph.columns.size());
    }
}

void sv_graphs_free(sv_graphs* graphs) { delete graphs; }
