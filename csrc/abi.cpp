#include "abi.h"

#include <cstring>
#include <type_traits>

#include "eigen.h"
#include "graph.h"
#include "guard.h"
#include "pose.h"
#include "scan.h"
#include "signs.h"

// Raise this together with ABI in ops/native/library.py whenever a signature or a struct changes.
constexpr int SV_ABI = 5;

namespace sv {
namespace {

thread_local char last_error[512] = "";

struct Struct {
    const char* name;
    int64_t size;
};

template <class T>
constexpr Struct describe(const char* name) {
    static_assert(std::is_standard_layout_v<T> && std::is_trivially_copyable_v<T>);
    return {name, int64_t(sizeof(T))};
}

// Every struct whose layout the caller has to know.
constexpr Struct structs[] = {
    describe<sv_scan>("sv_scan"),
    describe<sv_scan_gradients>("sv_scan_gradients"),
    describe<sv_graph_options>("sv_graph_options"),
    describe<sv_graph_arrays>("sv_graph_arrays"),
    describe<sv_eigen_options>("sv_eigen_options"),
    describe<sv_sign_options>("sv_sign_options"),
    describe<sv_pose_options>("sv_pose_options"),
};

}  // namespace

void set_last_error(const char* text) noexcept {
    std::strncpy(last_error, text, sizeof(last_error) - 1);  // the last byte stays 0
}

}  // namespace sv

int sv_abi_version() { return SV_ABI; }

int64_t sv_struct_size(const char* name) {
    for (const sv::Struct& known : sv::structs)
        if (std::strcmp(known.name, name) == 0) return known.size;
    return -1;
}

const char* sv_last_error() { return sv::last_error; }
