// Layer norm of dense rows on a CPU, forward and backward, for one type of numbers: float.cpp and its like name it and
// include this file, so that one library holds all types.
//
// Composed of PyTorch's operations, a pass would read and write memory thirty times; here it sweeps two or three times
// over rows that are in the cache. float32 is computed in double and the half types in float, and each result is
// rounded once. The gradient is that of `lnlib.closed_form`. The number of threads changes no bit, because the shape
// alone cuts the sums, and their parts are added up in order. The rows beside a row change no bit of its y and dx,
// because its sums are added up in the same order, whether it is visited alone or with others.

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "numbers.h"
#include "pages.h"

namespace {

// Rows that are visited at once share weight, bias and the sums over rows. In double there is one, because what
// rounding loses of these sums is kept row by row.
constexpr int ROWS = DOUBLE ? 1 : 4;
constexpr int SUMS = 4 / ROWS;  // vectors in which a row is added up, for each of its sums
constexpr int64_t KEPT = 16384 / BYTES;   // vectors that fit beside the rows in the first cache
constexpr int64_t KEPT_BACK = KEPT * 3 / 2;  // backward, which reads twice as much
constexpr int64_t SPAN = 4096;            // columns whose sum over a row is taken at a time
constexpr int64_t TILE = 512;             // columns whose sums over few rows stay in the first cache
constexpr int64_t ROWS_IN_CHUNK = HALF ? 64 : 32;  // at least: sums take an eighth of it
constexpr int64_t FEW = 2 * ROWS_IN_CHUNK;         // rows; below, they are not cut into chunks
constexpr int64_t MOST_CHUNKS = 64;       // and so the most threads that the backward pass has work for
constexpr int64_t WORTH_A_THREAD = 32768;  // values: a thread takes microseconds to wake, as does a barrier

int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// Use no more threads than there is work for: where the system refuses to start one, it ends the process.
int64_t at_most(int64_t threads, int64_t values) { return std::min(threads, 1 + values / WORTH_A_THREAD); }

// Run a body on several threads, which share its loops that are marked `omp for`. To begin a parallel region takes
// longer than a row does, so a single thread begins none. The body is compiled once for both.
#define SHARED __attribute__((noinline, noclone))

template <typename Body>
inline void in_threads(int64_t threads, const Body& body) {
    if (threads <= 1) return body();
#pragma omp parallel num_threads(threads)
    body();
}

// Prefetch what lies R rows further on, one cache line after another, because a processor sees no pattern in several
// rows that lie in one page. Lines to be read go to the second cache. Lines to be written are fetched too, because a
// store would wait for them, unless so many would drive each other out of the first cache. Past the end of memory
// a prefetch does nothing.
constexpr int64_t ASKED = 16384;  // bytes

template <int R>
inline void ask_to_read(const Number* p, int64_t H, int64_t i, int r) {
    if (R > 1) __builtin_prefetch(p + R * H + i * R + r * LANES, 0, 2);
}

template <int R>
inline void ask_to_write(const Number* p, int64_t H, int64_t i, int r) {
    if (R * H * int64_t(sizeof(Number)) <= ASKED) __builtin_prefetch(p + R * H + i * R + r * LANES, 1);
}

struct Pair {
    double first, second;
};

struct Statistics {  // the mean is mean + shift: one number may not hold all its digits
    double mean, shift, rstd;
};

// Compile a scalar function once: inlined into loops over one row and four, GCC would fuse and round it in two ways.
#define COMPILED_ONCE __attribute__((noinline))

// A row measured from `mean` has the sum and the sum of squares `of`. Squares that overflow make NaN; otherwise rstd
// would be 0, and y silently the bias.
COMPILED_ONCE Statistics statistics_of(double mean, Pair of, int64_t H, double eps) {
    // Rounding could leave less than 0, and so could squares that vanish in float where shift * shift does not.
    const double shift = of.first / H, var = std::max(of.second / H - shift * shift, 0.0);
    return {mean, shift, 1 / std::sqrt(var + eps) + 0 * var};
}

// Call body(i, k, n) for the n columns from i on. k counts to U, so that one sum does not wait for the addition before.
template <int U, typename Body>
inline void sweep(int64_t begin, int64_t end, Body body) {
    int64_t i = begin;
    for (; i + U * LANES <= end; i += U * LANES)
#pragma GCC unroll 4
        for (int k = 0; k < U; ++k) body(i + k * LANES, k, LANES);
    for (; i + LANES <= end; i += LANES) body(i, 0, LANES);
    if (i < end) body(i, 0, int(end - i));
}
#define INLINE __attribute__((always_inline))

// Makes x_hat of the numbers of R rows. The mean is subtracted first, because both may be large, and their difference
// small.
template <int R>
struct Standard {
    Vector mean[R], rstd[R], offset[R];

    Standard(const Statistics* s) {
        for (int r = 0; r < R; ++r)
            mean[r] = all(s[r].mean), rstd[r] = all(s[r].rstd), offset[r] = all(-s[r].shift * s[r].rstd);
    }
    Vector deviation(int r, Vector x) const { return x - mean[r]; }
    Vector x_hat(int r, Vector deviation) const { return deviation * rstd[r] + offset[r]; }
};

// ---- Forward

// Add some columns of R rows, measured from `from`, to the sums over each row. With KEEP, the deviations are kept for
// `normalize`.
template <int R, int U, bool KEEP>
inline void add_up(const Number* x, int64_t H, int64_t begin, int64_t end, const double* from, Pair* sums,
                   Vector* kept) {
    Vector of_x[R][U]{}, of_squares[R][U]{}, origin[R];
    for (int r = 0; r < R; ++r) origin[r] = all(from[r]);
    sweep<U>(begin, end, [&](int64_t i, int k, int n) INLINE {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            Vector d = load(x + r * H + i, n) - origin[r];
            if (n < LANES) d = first(n, d);
            if (KEEP) kept[i / LANES * R + r] = d;
            ask_to_read<R>(x, H, i, r);
            of_x[r][k] += d;
            of_squares[r][k] += d * d;
        }
    });
    for (int r = 0; r < R; ++r) sums[r].first += sum<U>(of_x[r]), sums[r].second += sum<U>(of_squares[r]);
}

template <int R, int U, bool KEEP>
inline void normalize(const Number* x, const Parameter* weight, const Parameter* bias, Number* y, int64_t H,
                      const Statistics* s, const Vector* kept) {
    const Standard<R> in(s);
    sweep<U>(0, H, [&](int64_t i, int, int n) INLINE {
        const Vector w = weight ? load(weight + i, n) : all(1), b = bias ? load(bias + i, n) : all(0);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            const Vector d = KEEP ? kept[i / LANES * R + r] : in.deviation(r, load(x + r * H + i, n));
            store(y + r * H + i, in.x_hat(r, d) * w + b, n);
            ask_to_write<R>(y, H, i, r);
        }
    });
}

// A row is measured from its first value, so a constant row is all zeros, whatever rounds. This value is at most
// σ√(H−1) from the mean, so of 53 bits at most log₂H cancel in the variance, and a float32 shows 24. The other types
// have no bits to spare, and are measured once more, from the mean.
constexpr int TIMES = HALF || DOUBLE ? 2 : 1;

COMPILED_ONCE double next_origin(double from, Pair sums, int64_t H) { return Real(from + sums.first / H); }

template <int R, int U, bool KEEP>
inline void forward_rows(const Number* x, const Parameter* weight, const Parameter* bias, Number* y, int64_t H,
                         double eps, int64_t B, double* statistics) {
    double from[R];
    Pair sums[R];
    Statistics s[R];
    Vector kept[KEEP ? KEPT : 1];
    for (int r = 0; r < R; ++r) from[r] = as_double(x[r * H]);
    for (int time = 0; time < TIMES; ++time) {
        if (time > 0)
            for (int r = 0; r < R; ++r) from[r] = next_origin(from[r], sums[r], H);
        std::fill_n(sums, R, Pair{});
        for (int64_t i = 0; i < H; i += SPAN) add_up<R, U, KEEP>(x, H, i, std::min(H, i + SPAN), from, sums, kept);
    }
    for (int r = 0; r < R; ++r) s[r] = statistics_of(from[r], sums[r], H, eps);
    normalize<R, U, KEEP>(x, weight, bias, y, H, s, kept);
    if (statistics == nullptr) return;
    for (int r = 0; r < R; ++r)
        statistics[r] = s[r].mean, statistics[B + r] = s[r].shift, statistics[2 * B + r] = s[r].rstd;
}

// ---- Backward

// Knuth's sum of two numbers: what rounding takes from it is added to `lost`.
template <typename T>
inline void add_to(T& sum, T& lost, T more) {
    const T before = sum, after = before + more, part = after - before;
    lost += (before - (after - part)) + (more - part);
    sum = after;
}

// Sums over rows, one number a column: dweight, then dbias. In double each is followed by what rounding lost of it,
// because there is no wider type.
struct Columns {
    static constexpr int NUMBERS = DOUBLE ? 4 : 2;  // a column
    double* at;
    int64_t stride;  // from one kind of sums to the next

    double* dweight() const { return at; }
    double* dbias() const { return at + NUMBERS / 2 * stride; }
    void add(double* sums, Vector v) const {
        const Halves more = in_double<Vector>(v);
        Doubles both[2];
        const int64_t bytes = HALF ? 2 * BYTES : BYTES;
        std::memcpy(both, sums, bytes);
        if constexpr (DOUBLE) {
            Doubles lost;
            std::memcpy(&lost, sums + stride, BYTES);
            add_to(both[0], lost, more.low);
            std::memcpy(sums + stride, &lost, BYTES);
        } else {
            both[0] += more.low;
        }
        if (HALF) both[1] += more.high;
        std::memcpy(sums, both, bytes);
    }

    // Add n columns over other rows.
    void join(const double* sums, int64_t their_stride, int64_t n) const {
        for (int kind = 0; kind < 2; ++kind) {
            double* to = kind ? dbias() : dweight();
            const double* from = sums + kind * NUMBERS / 2 * their_stride;
            for (int64_t i = 0; i < n; ++i) {
                if constexpr (DOUBLE)
                    add_to(to[i], to[stride + i], from[i]), to[stride + i] += from[their_stride + i];
                else
                    to[i] += from[i];
            }
        }
    }

    void write(int64_t n, Parameter* to_dweight, Parameter* to_dbias) const {
        // What an infinite sum lost is NaN.
        auto total = [&](const double* sums, int64_t i) {
            return DOUBLE && std::isfinite(sums[i]) ? sums[i] + sums[stride + i] : sums[i];
        };
        for (int64_t i = 0; i < n; ++i) {
            if (to_dweight) to_dweight[i] = total(dweight(), i);
            if (to_dbias) to_dbias[i] = total(dbias(), i);
        }
    }
};

struct Kept {
    Vector g, deviation;
};

// Visit some columns of R rows. With SUM, add to the sums over each row, of g = weight · dy and g · x_hat. With
// COLUMNS, add to the sums over the rows. With DX, when the means over each row are in `row`, store
// dx = rstd · (g − (mean of g + x_hat · mean of g · x_hat)), where the inner bracket is computed as
// level + slope · (x − mean). With KEEP, the visit with SUM leaves g and x − mean in `kept` for the visit with DX.
template <int R, int U, bool SUM, bool COLUMNS, bool DX, bool KEEP = false>
inline void visit(const Number* dy, const Number* x, const Parameter* weight, Number* dx, int64_t H, int64_t begin,
                  int64_t end, const Statistics* s, Pair* row, Columns columns, Kept* kept = nullptr) {
    const Standard<R> in(s);
    Vector of_g[R][U]{}, of_gx_hat[R][U]{}, slope[R], level[R];
    if (DX)
        for (int r = 0; r < R; ++r) {
            const double along = s[r].rstd * row[r].second;
            slope[r] = all(along), level[r] = all(row[r].first - s[r].shift * along);
        }
    sweep<U>(begin, end, [&](int64_t i, int k, int n) INLINE {
        const Vector w = weight ? load(weight + i, n) : all(1);
        Vector dweight{}, dbias{};
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            Vector grad{}, g, deviation;
            if (KEEP && DX) {
                g = kept[i / LANES * R + r].g, deviation = kept[i / LANES * R + r].deviation;
            } else {
                // Beyond the end of a row, dy and the deviation are 0, so nothing is added.
                grad = load(dy + r * H + i, n), g = rounded(grad * w);
                deviation = in.deviation(r, load(x + r * H + i, n));
                if (n < LANES) deviation = first(n, deviation);
                if (KEEP) kept[i / LANES * R + r] = {g, deviation};
            }
            const Vector x_hat = in.x_hat(r, deviation);
            if (SUM) ask_to_read<R>(dy, H, i, r), ask_to_read<R>(x, H, i, r);
            if (SUM) of_g[r][k] += g, of_gx_hat[r][k] += g * x_hat;
            if (COLUMNS) dweight += grad * x_hat, dbias += grad;
            if (DX) {
                store(dx + r * H + i, (g - (deviation * slope[r] + level[r])) * in.rstd[r], n);
                ask_to_write<R>(dx, H, i, r);
            }
        }
        if (!COLUMNS) return;
        columns.add(columns.dweight() + i - begin, dweight);
        columns.add(columns.dbias() + i - begin, dbias);
    });
    if (SUM)
        for (int r = 0; r < R; ++r) row[r].first += sum<U>(of_g[r]), row[r].second += sum<U>(of_gx_hat[r]);
}

template <int R, int U, bool KEEP>
inline void backward_rows(const Number* dy, const Number* x, const double* statistics, const Parameter* weight,
                          Number* dx, int64_t B, int64_t H, Columns columns) {
    Statistics s[R];
    Pair row[R]{};
    Kept kept[KEEP ? KEPT_BACK / 2 : 1];
    for (int r = 0; r < R; ++r) s[r] = {statistics[r], statistics[B + r], statistics[2 * B + r]};
    for (int64_t i = 0; i < H; i += SPAN) {
        const Columns some{columns.at + i, columns.stride};
        visit<R, U, true, true, false, KEEP>(dy, x, weight, dx, H, i, std::min(H, i + SPAN), s, row, some, kept);
    }
    if (dx == nullptr) return;
    for (int r = 0; r < R; ++r) row[r].first /= H, row[r].second /= H;
    visit<R, U, false, false, true, KEEP>(dy, x, weight, dx, H, 0, H, s, row, columns, kept);
}

int64_t chunks_of(int64_t B) { return std::min(B / ROWS_IN_CHUNK, MOST_CHUNKS); }
int64_t stride_of(int64_t H) { return parts(H, 16) * 16; }  // where a row ends, whole vectors are added

// Many rows: each chunk of them has its own sums.
void backward_chunks(int64_t B, int64_t H, int64_t threads, const Number* dy, const Number* x,
                     const double* statistics, const Parameter* weight, Number* dx, Parameter* dweight,
                     Parameter* dbias, double* scratch) {
    const int64_t chunks = chunks_of(B), rows = parts(B, chunks), stride = stride_of(H);
    auto sums = [&](int64_t chunk) { return Columns{scratch + chunk * Columns::NUMBERS * stride, stride}; };
    in_threads(at_most(threads, B * H), [&]() SHARED {
#pragma omp for
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            const Columns columns = sums(chunk);
            std::fill_n(columns.at, Columns::NUMBERS * stride, 0.0);
            const int64_t end = std::min(B, (chunk + 1) * rows);
            auto visit_rows = [&](auto visitor, int64_t row) {
                visitor(dy + row * H, x + row * H, statistics + row, weight, dx ? dx + row * H : dx, B, H, columns);
            };
            const bool keeps = !DOUBLE && dx && 2 * ROWS * parts(H, LANES) <= KEPT_BACK;
            int64_t row = chunk * rows;
            for (; row + ROWS <= end; row += ROWS)
                visit_rows(keeps ? backward_rows<ROWS, SUMS, !DOUBLE> : backward_rows<ROWS, SUMS, false>, row);
            for (; row < end; ++row) visit_rows(backward_rows<1, SUMS, false>, row);
        }
#pragma omp for
        for (int64_t begin = 0; begin < H; begin += TILE) {
            const int64_t n = std::min(H - begin, TILE);
            double of_all[Columns::NUMBERS * TILE]{};
            const Columns columns{of_all, TILE};
            for (int64_t chunk = 0; chunk < chunks; ++chunk) columns.join(sums(chunk).at + begin, stride, n);
            columns.write(n, dweight ? dweight + begin : dweight, dbias ? dbias + begin : dbias);
        }
    });
}

// Few rows: first the sums over each row, span by span, then everything else, tile by tile.
void backward_few(int64_t B, int64_t H, int64_t threads, const Number* dy, const Number* x, const double* statistics,
                  const Parameter* weight, Number* dx, Parameter* dweight, Parameter* dbias, double* scratch) {
    const int64_t spans = parts(H, SPAN);
    Pair *means = reinterpret_cast<Pair*>(scratch), *of_spans = means + B;
    auto of = [&](int64_t row) { return Statistics{statistics[row], statistics[B + row], statistics[2 * B + row]}; };
    in_threads(at_most(threads, B * H), [&]() SHARED {
        if (dx) {
#pragma omp for
            for (int64_t part = 0; part < B * spans; ++part) {
                const int64_t row = part / spans, begin = part % spans * SPAN, end = std::min(H, begin + SPAN);
                const Statistics s = of(row);
                of_spans[part] = {};
                visit<1, SUMS, true, false, false>(dy + row * H, x + row * H, weight, dx, H, begin, end, &s,
                                                of_spans + part, {});
            }
#pragma omp for
            for (int64_t row = 0; row < B; ++row) {
                Pair total{};
                for (const Pair* span = of_spans + row * spans; span < of_spans + (row + 1) * spans; ++span)
                    total.first += span->first, total.second += span->second;
                means[row] = {total.first / H, total.second / H};
            }
        }
#pragma omp for
        for (int64_t begin = 0; begin < H; begin += TILE) {
            const int64_t end = std::min(H, begin + TILE);
            double sums[Columns::NUMBERS * TILE]{};
            const Columns columns{sums, TILE};
            auto visit_rows = [&](auto R, int64_t row) {
                Statistics s[R];
                for (int r = 0; r < R; ++r) s[r] = of(row + r);
                const Number *grad = dy + row * H, *in = x + row * H;
                if (dx)
                    visit<R, 1, false, true, true>(grad, in, weight, dx + row * H, H, begin, end, s, means + row,
                                                   columns);
                else
                    visit<R, 1, false, true, false>(grad, in, weight, dx, H, begin, end, s, nullptr, columns);
            };
            int64_t row = 0;
            for (; row + ROWS <= B; row += ROWS) visit_rows(std::integral_constant<int, ROWS>{}, row);
            for (; row < B; ++row) visit_rows(std::integral_constant<int, 1>{}, row);
            columns.write(end - begin, dweight ? dweight + begin : dweight, dbias ? dbias + begin : dbias);
        }
    });
}

}  // namespace

// The functions are called forward_float, backward_float, and so on.
#define JOINED(function, number) function##_##number
#define NAMED(function, number) JOINED(function, number)

extern "C" {

// x, y: (B, H); weight, bias: (H), or null for 1 and 0; statistics: (3, B), mean, shift and rstd, or null.
void NAMED(forward, NUMBER)(int64_t B, int64_t H, int64_t threads, double eps, const Number* x, const Parameter* weight,
                            const Parameter* bias, Number* y, double* statistics) {
    ask_for_huge_pages(y, B * H * sizeof(Number));
    const bool keeps = ROWS * parts(H, LANES) <= KEPT;
    in_threads(at_most(threads, B * H), [&]() SHARED {
#pragma omp for
        for (int64_t block = 0; block < B; block += ROWS) {
            auto visit_rows = [&](auto visitor, int64_t row) {
                visitor(x + row * H, weight, bias, y + row * H, H, eps, B, statistics ? statistics + row : statistics);
            };
            if (block + ROWS <= B)
                visit_rows(keeps ? forward_rows<ROWS, SUMS, true> : forward_rows<ROWS, SUMS, false>, block);
            else
                for (int64_t row = block; row < B; ++row) visit_rows(forward_rows<1, SUMS, false>, row);
        }
    });
}

// dy, x, dx: (B, H); statistics: as the forward pass left them; weight, dweight, dbias: (H). A gradient that is null is
// not asked for, and a weight that is null is 1. Returns whether there was memory for the sums.
bool NAMED(backward, NUMBER)(int64_t B, int64_t H, int64_t threads, const Number* dy, const Number* x,
                             const double* statistics, const Parameter* weight, Number* dx, Parameter* dweight,
                             Parameter* dbias) {
    if (dx) ask_for_huge_pages(dx, B * H * sizeof(Number));
    const bool few = B < FEW;
    const int64_t size = few ? 2 * B * (1 + parts(H, SPAN)) : chunks_of(B) * Columns::NUMBERS * stride_of(H);
    const std::unique_ptr<double[]> scratch(new (std::nothrow) double[size]);
    if (!scratch) return false;
    (few ? backward_few : backward_chunks)(B, H, threads, dy, x, statistics, weight, dx, dweight, dbias, scratch.get());
    return true;
}

}  // extern "C"
