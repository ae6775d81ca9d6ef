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

    Distances(const Tokens& tokens, double same)
        : tokens(tokens), same(same), stores_all(tokens.count * tokens.padded <= largest_stored),
          memory((stores_all ? tokens.count : strip) * tokens.padded) {
        for (int64_t first = 0; stores_all && first < tokens.count; first += strip)
            compute_strip(first, memory.data() + first * tokens.padded);
    }

    const double* row_in_any_order(int64_t token) {
        if (stores_all) return stored(token);
        one_row(tokens, token, same, memory.data());
        return memory.data();
    }

    // Tokens 0, 1, 2, … one after the other.
    const double* next_row(int64_t token) {
        if (stores_all) return stored(token);
        if (token % strip == 0) compute_strip(token, memory.data());
        return memory.data() + token % strip * tokens.padded;
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

    const double* stored(int64_t token) const { return memory.data() + token * tokens.padded; }

    double same;
    bool stores_all;
    std::vector<double> memory;
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

// The minimum spanning tree over all pairs (Prim): an edge from the parent of each token, in the order of insertion.
std::vector<Edge> spanning_tree(Distances& distances) {
    const int64_t count = distances.tokens.count;
    std::vector<double> nearest(count, infinite);
    std::vector<int32_t> parent(count, 0);
    std::vector<char> in_tree(count, 0);
    std::vector<Edge> tree;
    for (int64_t token = 0; int64_t(tree.size()) < count - 1;) {
        in_tree[token] = 1;
        const double* row = distances.row_in_any_order(token);
        int64_t next = -1;
        for (int64_t j = 0; j < count; ++j) {
            if (in_tree[j]) continue;
            if (row[j] < nearest[j]) nearest[j] = row[j], parent[j] = int32_t(token);
            if (next < 0 || nearest[j] < nearest[next]) next = j;
        }
        tree.push_back({parent[next], int32_t(next), nearest[next]});
        token = next;
    }
    return tree;
}

// For a token, the longest edge on the tree path to every other token.
class TreePaths {
  public:
    TreePaths(const std::vector<Edge>& tree, int64_t count) : starts(count + 1), ends(2 * tree.size()), longest(count) {
        for (const Edge& edge : tree) ++starts[edge.from], ++starts[edge.to];
        std::partial_sum(starts.begin(), starts.end(), starts.begin());
        for (const Edge& edge : tree) {
            ends[--starts[edge.from]] = {edge.to, edge.squared};
            ends[--starts[edge.to]] = {edge.from, edge.squared};
        }
    }

    const std::vector<double>& longest_edges(int32_t source) {
        std::fill(longest.begin(), longest.end(), -1.0);
        longest[source] = 0;
        waiting.assign(1, source);
        while (!waiting.empty()) {
            const int32_t token = waiting.back();
            waiting.pop_back();
            for (int64_t e = starts[token]; e < starts[token + 1]; ++e) {
                const auto [next, squared] = ends[e];
                if (longest[next] >= 0) continue;
                longest[next] = std::max(longest[token], squared);
                waiting.push_back(next);
            }
        }
        return longest;
    }

  private:
    std::vector<int64_t> starts;
    std::vector<std::pair<int32_t, double>> ends;
    std::vector<double> longest;
    std::vector<int32_t> waiting;
};

// Adds every edge that belongs to some minimum spanning tree: those no longer than the longest edge on the tree path
// between their ends. Edges are sorted by their first end, then by their second, in the input and in the result.
std::vector<Edge> with_spanning_edges(const std::vector<Edge>& edges, Distances& distances, double slack) {
    const int64_t count = distances.tokens.count;
    TreePaths paths(spanning_tree(distances), count);
    std::vector<Edge> spanning, all;
    for (int64_t source = 0; source < count; ++source) {
        const std::vector<double>& longest = paths.longest_edges(int32_t(source));
        const double* row = distances.next_row(source);
        for (int64_t j = 0; j < count; ++j)
            if (j != source && row[j] <= longest[j] + slack) spanning.push_back({int32_t(source), int32_t(j), row[j]});
    }
    auto ends = [](const Edge& edge) { return std::pair(edge.from, edge.to); };
    auto before = [&](const Edge& a, const Edge& b) { return ends(a) < ends(b); };
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
        Distances distances(tokens, o.same);
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
