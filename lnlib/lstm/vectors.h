// Vectors of floats, as wide as the processor's that is compiled for.

#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#pragma GCC target("prefer-vector-width=512")  // GCC takes half of it, for older ones that slow down
#endif

namespace {

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX2__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif
constexpr int LANES = BYTES / sizeof(float);

template <typename T, int N>
struct Of {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};
using Vector = Of<float, LANES>::type;
using Lanes = Of<int32_t, LANES>::type;

int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// T is Vector, or float where a row ends.
template <typename T>
inline T load(const float* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

template <typename T>
inline void store(float* p, T v) {
    std::memcpy(p, &v, sizeof v);
}

template <int N>
inline float sum_lanes(typename Of<float, N>::type v) {
    if constexpr (N == 2) {
        return v[0] + v[1];
    } else {
        typename Of<float, N / 2>::type halves[2];
        std::memcpy(halves, &v, sizeof v);
        return sum_lanes<N / 2>(halves[0] + halves[1]);
    }
}

// R sums of f(i, r), i below n: f(i, r, Vector) is of LANES numbers from i on, f(i, r, float) of one. At least four
// vectors of sums are under way, so that an addition need not wait for the one before.
template <int R, typename F>
inline void sum(int64_t n, float* sums, F f) {
    constexpr int U = 4 / R;
    Vector found[R][U]{};
    float rest[R]{};
    int64_t i = 0;
    for (; i + U * LANES <= n; i += U * LANES)
#pragma GCC unroll 4
        for (int k = 0; k < U; ++k)
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r) found[r][k] += f(i + k * LANES, r, Vector{});
    for (; i + LANES <= n; i += LANES)
        for (int r = 0; r < R; ++r) found[r][0] += f(i, r, Vector{});
    for (; i < n; ++i)
        for (int r = 0; r < R; ++r) rest[r] += f(i, r, 0.0f);
    for (int r = 0; r < R; ++r) {
        for (int k = 1; k < U; ++k) found[r][0] += found[r][k];
        sums[r] = sum_lanes<LANES>(found[r][0]) + rest[r];
    }
}

}  // namespace
