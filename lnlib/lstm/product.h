// The product of two matrices, C = A B or C += A B, for the few rows that a step of an LSTM has.
//
// A library's product would pack its right factor at every call, which here is the same weights at every
// step, and would divide its sums for as many threads as there are. Here B is packed once, and each number
// of C is one sum, in the order of its terms, DEPTH at a time: whichever rows are beside it, and whoever
// computes it, its bits are the same.
//
// A processor with vectors of L floats multiplies and adds 2 L pairs a cycle, if it need not wait: an
// addition takes 4 cycles, so at least 8 vectors of sums must be under way, and more numbers must not be
// loaded than can be. A tile of 8 x 2 vectors has 16 of them, and loads 10 for 16 products: 2 vectors of B,
// and from A 8 numbers, each straight from memory into all lanes. Where there are 16 registers, not 32,
// a tile is 4 x 2.

#include <algorithm>
#include <utility>

namespace {

constexpr int ROWS = LANES == 16 ? 8 : 4;
constexpr int64_t DEPTH = 256;  // rows of B in a go: with them 2 panels fill most of the first cache

// A panel is LANES columns of B, row after row; what the last one lacks is 0.
int64_t packed_size(int64_t K, int64_t N) { return parts(N, LANES) * LANES * K; }

// Put row k of B (K, N) into its panels.
inline void pack_row(const float* row, int64_t k, int64_t K, int64_t N, float* packed) {
    int64_t j = 0;
    for (; j + LANES <= N; j += LANES) std::memcpy(packed + j * K + k * LANES, row + j, BYTES);
    if (j == N) return;
    Vector last{};
    for (int64_t i = j; i < N; ++i) last[i - j] = row[i];
    std::memcpy(packed + j * K + k * LANES, &last, BYTES);
}

void pack(const float* b, int64_t K, int64_t N, float* packed) {
    for (int64_t k = 0; k < K; ++k) pack_row(b + k * N, k, K, N, packed);
}

// One step to the transposed of LANES vectors: lanes of v[i + HALF] without HALF, and of v[i] with it, change places.
template <int HALF>
inline void transpose(Vector* v) {
    Lanes first, second;
    for (int lane = 0; lane < LANES; ++lane) {
        first[lane] = lane & HALF ? LANES + lane - HALF : lane;
        second[lane] = lane & HALF ? LANES + lane : lane + HALF;
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i)
        if (!(i & HALF)) {
            const Vector a = v[i], b = v[i + HALF];
            v[i] = __builtin_shuffle(a, b, first), v[i + HALF] = __builtin_shuffle(a, b, second);
        }
    if constexpr (HALF > 1) transpose<HALF / 2>(v);
}

// Load LANES rows of b from some place on, K numbers apart, and transpose them: v[k] has number k of each. Of a block
// at the end only `columns` rows are there, each with `rows` numbers.
inline void load_transposed(const float* b, int64_t K, int64_t columns, int64_t rows, Vector* v) {
    if (columns == LANES && rows == LANES) {
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; ++lane) v[lane] = load<Vector>(b + lane * K);
        transpose<LANES / 2>(v);
    } else {
        for (int64_t row = 0; row < rows; ++row) {
            v[row] = Vector{};
            for (int64_t lane = 0; lane < columns; ++lane) v[row][lane] = b[lane * K + row];
        }
    }
}

// Put the transposed of b (N, K) into the panels of (K, N).
void pack_transposed(const float* b, int64_t K, int64_t N, float* packed) {
    for (int64_t j = 0; j < N; j += LANES)
        for (int64_t k = 0; k < K; k += LANES) {
            Vector v[LANES];
            const int64_t columns = std::min<int64_t>(LANES, N - j), rows = std::min<int64_t>(LANES, K - k);
            load_transposed(b + j * K + k, K, columns, rows, v);
            std::memcpy(packed + j * K + k * LANES, v, rows * sizeof *v);
        }
}

// How A lies in memory: number k of row r is numbers[r * row + k * column].
struct AsItIs {
    const float* numbers;
    int64_t row;
    static constexpr int64_t column = 1;

    AsItIs from(int64_t r, int64_t k) const { return {numbers + r * row + k, row}; }
};
struct Transposed {  // of (K, SLICE), as `pack_slice` leaves it
    const float* numbers;
    static constexpr int64_t row = 1, column = ROWS;

    Transposed from(int64_t r, int64_t k) const {
        return {numbers + r / ROWS * ROWS * DEPTH + r % ROWS + k * ROWS};
    }
};

constexpr int64_t SLICE = 8 * ROWS;
constexpr int64_t PACKED_SLICE = SLICE * DEPTH;

// Put `columns` of K rows, SLICE and DEPTH at most, beside each other by ROWS: rows of a transposed left factor.
void pack_slice(const float* a, int64_t stride, int64_t K, int64_t columns, float* packed) {
    for (int64_t k = 0; k < K; ++k) {
        const float* row = a + k * stride;
        int64_t j = 0;
        for (; j + ROWS <= columns; j += ROWS) std::memcpy(packed + j * DEPTH + k * ROWS, row + j, ROWS * sizeof *row);
        std::copy(row + j, row + columns, packed + j * DEPTH + k * ROWS);
    }
}

// R rows of V panels of C, of whose columns n are there. `At` counts the sums, which stay in registers, because so
// written their places are known before anything is unrolled.
template <int V, typename A, size_t... At>
inline void tile(std::index_sequence<At...>, A a, int64_t K, const float* b, int64_t panel, float* c, int64_t stride,
                 int64_t n, bool adds) {
    Vector sums[sizeof...(At)]{};
    for (int64_t k = 0; k < K; ++k, b += LANES) {
        const Vector of_b[] = {load<Vector>(b), load<Vector>(b + (V - 1) * panel)};
        ((sums[At] += a.numbers[At / V * a.row + k * a.column] * of_b[At % V]), ...);
    }
    const auto write = [=](Vector sum, int64_t r, int64_t v) {
        float* at = c + r * stride + v * LANES;
        if (n - v * LANES >= LANES) return store(at, adds ? load<Vector>(at) + sum : sum);
        Vector before{};
        const size_t bytes = (n - v * LANES) * sizeof(float);
        if (adds) std::memcpy(&before, at, bytes);
        sum += before;
        std::memcpy(at, &sum, bytes);
    };
    (write(sums[At], At / V, At % V), ...);
}

template <int R, int V, typename A>
inline void tile(A a, int64_t K, const float* b, int64_t panel, float* c, int64_t stride, int64_t n, bool adds) {
    tile<V>(std::make_index_sequence<R * V>(), a, K, b, panel, c, stride, n, adds);
}

template <int V, typename A>
inline void tiles(A a, int64_t M, int64_t K, const float* b, int64_t panel, float* c, int64_t stride, int64_t n,
                  bool adds) {
    int64_t i = 0;
    for (; i + ROWS <= M; i += ROWS) tile<ROWS, V>(a.from(i, 0), K, b, panel, c + i * stride, stride, n, adds);
    if (ROWS == 8 && i + 4 <= M) tile<4, V>(a.from(i, 0), K, b, panel, c + i * stride, stride, n, adds), i += 4;
    if (i + 2 <= M) tile<2, V>(a.from(i, 0), K, b, panel, c + i * stride, stride, n, adds), i += 2;
    if (i < M) tile<1, V>(a.from(i, 0), K, b, panel, c + i * stride, stride, n, adds);
}

// C (M, N), in rows of `stride` numbers, becomes A B, or that is added to it. A panel of b has `of_panel`
// rows, of which the first K are meant.
template <typename A>
void multiply(A a, int64_t M, int64_t K, int64_t N, const float* b, int64_t of_panel, float* c, int64_t stride,
              bool adds = false) {
    int64_t k = 0;
    do {  // once for K = 0, too: C becomes 0
        const int64_t depth = std::min(DEPTH, K - k);
        for (int64_t j = 0; j < N; j += 2 * LANES) {
            const float* panels = b + j * of_panel + k * LANES;
            if (N - j > LANES)
                tiles<2>(a.from(0, k), M, depth, panels, of_panel * LANES, c + j, stride, N - j, adds || k > 0);
            else
                tiles<1>(a.from(0, k), M, depth, panels, of_panel * LANES, c + j, stride, N - j, adds || k > 0);
        }
    } while ((k += DEPTH) < K);
}

// The same for so few rows that to pack the right factor costs more than to read it: C (R, N) = A (R, K) times the
// transposed of b (N, K). A panel is in registers only, and each number of C is the same sum, in the same order.
template <int R>
inline void multiply_few(const float* a, int64_t K, int64_t N, const float* b, float* c) {
    for (int64_t j = 0; j < N; j += LANES) {
        const int64_t columns = std::min<int64_t>(LANES, N - j);
        Vector totals[R]{}, sums[R];
        for (int64_t k = 0; k < K; k += LANES) {
            Vector v[LANES];
            const int64_t rows = std::min<int64_t>(LANES, K - k);
            load_transposed(b + j * K + k, K, columns, rows, v);
            if (k % DEPTH == 0) std::fill_n(sums, R, Vector{});
            for (int64_t row = 0; row < rows; ++row)
                for (int r = 0; r < R; ++r) sums[r] += a[r * K + k + row] * v[row];
            if (k + LANES >= K || (k + LANES) % DEPTH == 0)
                for (int r = 0; r < R; ++r) totals[r] += sums[r];
        }
        for (int r = 0; r < R; ++r) std::memcpy(c + r * N + j, totals + r, columns * sizeof(float));
    }
}

constexpr int64_t FEW = 4;  // rows of A, for which B is not packed

inline void multiply_few(const float* a, int64_t M, int64_t K, int64_t N, const float* b, float* c) {
    constexpr void (*OF[])(const float*, int64_t, int64_t, const float*, float*) = {
        multiply_few<1>, multiply_few<2>, multiply_few<3>, multiply_few<4>};
    OF[M - 1](a, K, N, b, c);
}

}  // namespace
