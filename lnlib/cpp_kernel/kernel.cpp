// Layer norm of rows on a CPU, forward and backward, for one type of numbers: -DNUMBER names it.

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

struct bfloat16 {
    uint16_t bits;
};
struct float16 {
    uint16_t bits;
};

using Number = NUMBER;                                        // of x, y and their gradients
constexpr bool HALF = sizeof(Number) == 2, DOUBLE = sizeof(Number) == 8;
using Real = std::conditional_t<HALF, float, double>;         // of the arithmetic
using Parameter = std::conditional_t<DOUBLE, double, float>;  // of weight and bias, and of their gradients

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define WITH_AVX512
constexpr int BYTES = 64;  // of a register
#elif defined(__AVX2__) && defined(__F16C__)
#define WITH_AVX2
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif
constexpr int LANES = BYTES / sizeof(Real);

template <typename T, int N>
struct Lanes {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};
using Vector = Lanes<Real, LANES>::type;
using Whole = std::conditional_t<HALF, int32_t, int64_t>;
using Wholes = Lanes<Whole, LANES>::type;
template <typename T>  // as many numbers as there are lanes
using Raw = typename Lanes<std::conditional_t<sizeof(T) == 2, uint16_t, T>, LANES>::type;
using Words = Lanes<uint32_t, LANES>::type;

inline Vector all(Real value) { return Vector{} + value; }

// ---- Memory: n numbers where a row ends, the other lanes 0.

#ifdef WITH_AVX512
template <typename T>
inline auto mask_of(int n) {
    return (1ull << n * (sizeof(T) / 2) ) - 1;
}
#endif

template <typename T>
inline Raw<T> read(const T* p, int n) {
    Raw<T> raw{};
#ifdef WITH_AVX512
    if constexpr (sizeof raw == 64 && sizeof(T) == 8)
        return (Raw<T>)_mm512_maskz_loadu_epi64(__mmask8((1u << n) - 1), p);
    else if constexpr (sizeof raw == 64)
        return (Raw<T>)_mm512_maskz_loadu_epi32(__mmask16((1u << n) - 1), p);
    else if constexpr (sizeof(T) == 4)
        return (Raw<T>)_mm256_maskz_loadu_epi32(__mmask8((1u << n) - 1), p);
    else
        return (Raw<T>)_mm256_maskz_loadu_epi16(__mmask16((1u << n) - 1), p);
#else
    std::memcpy(&raw, p, n * sizeof(T));
    return raw;
#endif
}

template <typename T>
inline void write(T* p, Raw<T> raw, int n) {
#ifdef WITH_AVX512
    if constexpr (sizeof raw == 64 && sizeof(T) == 8)
        _mm512_mask_storeu_epi64(p, __mmask8((1u << n) - 1), (__m512i)raw);
    else if constexpr (sizeof raw == 64)
        _mm512_mask_storeu_epi32(p, __mmask16((1u << n) - 1), (__m512i)raw);
    else if constexpr (sizeof(T) == 4)
        _mm256_mask_storeu_epi32(p, __mmask8((1u << n) - 1), (__m256i)raw);
    else
        _mm256_mask_storeu_epi16(p, __mmask16((1u << n) - 1), (__m256i)raw);
#else
    std::memcpy(p, &raw, n * sizeof(T));
#endif
}

// ---- Conversions

template <typename T>
inline Vector widen(Raw<T> raw) {
    if constexpr (std::is_same_v<T, Real>) {
        return (Vector)raw;
    } else if constexpr (std::is_same_v<T, float>) {
#if defined(WITH_AVX512)
        return (Vector)_mm512_cvtps_pd((__m256)raw);
#elif defined(WITH_AVX2)
        return (Vector)_mm256_cvtps_pd((__m128)raw);
#else
        return (Vector)__builtin_convertvector(raw, Vector);
#endif
    } else if constexpr (std::is_same_v<T, bfloat16>) {
#if defined(WITH_AVX512)
        return (Vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)raw), 16);
#elif defined(WITH_AVX2)
        return (Vector)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)raw), 16);
#else
        return (Vector)(__builtin_convertvector(raw, Words) << 16);
#endif
    } else {
#if defined(WITH_AVX512)
        return (Vector)_mm512_cvtph_ps((__m256i)raw);
#elif defined(WITH_AVX2)
        return (Vector)_mm256_cvtph_ps((__m128i)raw);
#else
        const Words bits = __builtin_convertvector(raw, Words), size = (bits & 0x7fff) << 13;
        const Words scaled = (Words)((Vector)size * 0x1p112f);
        return (Vector)((size >= 0x0f800000 ? size | 0x7f800000 : scaled) | (bits & 0x8000) << 16);
#endif
    }
}

template <typename T, typename V>
inline Raw<T> narrow(V v) {
    if constexpr (std::is_same_v<T, Real>) {
        return (Raw<T>)v;
    } else if constexpr (std::is_same_v<T, float>) {
        return __builtin_convertvector(v, Raw<T>);
    } else if constexpr (std::is_same_v<T, bfloat16>) {
        const Words bits = (Words)v;
        const Words even = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        const Words rounded = v == v ? even : bits >> 16 | 0x40;
#if defined(WITH_AVX512)
        return (Raw<T>)_mm512_cvtepi32_epi16((__m512i)rounded);
#else
        return __builtin_convertvector(rounded, Raw<T>);
#endif
    } else {
#if defined(WITH_AVX512)
        return (Raw<T>)_mm512_cvtps_ph((__m512)v, 0);
#elif defined(WITH_AVX2)
        return (Raw<T>)_mm256_cvtps_ph((__m256)v, 0);
#else
        const Words bits = (Words)v, size = bits & 0x7fffffff;
        const Words even = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
        const Words small = (Words)((Vector)size + 0.5f) - 0x3f000000;
        const Words large = size > 0x7f800000 ? Words{} + 0x7e00 : Words{} + 0x7c00;
        const Words rounded = size < 0x38800000 ? small : size >= 0x477ff000 ? large : even;
        return __builtin_convertvector(rounded | (bits >> 16 & 0x8000), Raw<T>);
#endif
    }
}

template <typename T>
inline Vector load(const T* p, int n = LANES) {
    Raw<T> raw;
    if (n == LANES)
        std::memcpy(&raw, p, sizeof raw);
    else
        raw = read(p, n);
    return widen<T>(raw);
}

template <typename T>
inline void store(T* p, Vector v, int n = LANES) {
    const Raw<T> raw = narrow<T, Vector>(v);
    if (n == LANES)
        std::memcpy(p, &raw, sizeof raw);
    else
        write(p, raw, n);
}

// Past the caches, straight to memory; for whole vectors at multiples of their size.
template <typename T>
inline void stream(T* p, Vector v) {
    const Raw<T> raw = narrow<T, Vector>(v);
#if defined(WITH_AVX512) || defined(WITH_AVX2)
    if constexpr (sizeof raw == 64)
        _mm512_stream_si512((__m512i*)p, (__m512i)raw);
    else if constexpr (sizeof raw == 32)
        _mm256_stream_si256((__m256i*)p, (__m256i)raw);
    else
        _mm_stream_si128((__m128i*)p, (__m128i)raw);
#else
    std::memcpy(p, &raw, sizeof raw);
#endif
}

inline double real(Number x) {
    Raw<Number> raw{};
    std::memcpy(&raw, &x, sizeof x);
    return widen<Number>(raw)[0];
}

// 1 in the first n lanes.
inline Vector counted(Vector v, int n) {
    Wholes lane;
    for (int i = 0; i < LANES; ++i) lane[i] = i;
    return lane < n ? v : Vector{};
}


using Raw2 = Lanes<float, BYTES / 8>::type;
using Doubles = Lanes<double, BYTES / 8>::type;
constexpr int DOUBLES = BYTES / 8;
inline Doubles to_double(Raw2 raw) {
#if defined(WITH_AVX512)
        return (Doubles)_mm512_cvtps_pd((__m256)raw);
#elif defined(WITH_AVX2)
        return (Doubles)_mm256_cvtps_pd((__m128)raw);
#else
        return __builtin_convertvector(raw, Doubles);
#endif
}

template <int N>
inline double sum_lanes(typename Lanes<double, N>::type v) {
    if constexpr (N == 2) {
        return v[0] + v[1];
    } else {
        typename Lanes<double, N / 2>::type halves[2];
        std::memcpy(halves, &v, sizeof v);
        return sum_lanes<N / 2>(halves[0] + halves[1]);
    }
}

// The sum of the lanes of some vectors.
template <int U>
inline double sum(const Vector* v) {
    Vector total = v[0];
    for (int k = 1; k < U; ++k) total += v[k];
    if constexpr (HALF) {
        Raw2 halves[2];
        std::memcpy(halves, &total, BYTES);
        return sum_lanes<DOUBLES>(to_double(halves[0]) + to_double(halves[1]));
    } else {
        return sum_lanes<DOUBLES>((Doubles)total);
    }
}

constexpr int64_t SPAN = 4096;  // columns that are summed up at a time
constexpr int64_t TILE = 512;   // columns whose sums over few rows are made at a time
constexpr int64_t WORTH_A_THREAD = 8192;
constexpr int64_t FEW = 32, LONG = 1 << 18, MOST_CHUNKS = 64;
constexpr int64_t IN_CACHE = 1 << 20, BEYOND_CACHE = 1 << 23;  // bytes
constexpr int SUMS = DOUBLE ? 4 : 2;

int64_t at_most(int64_t threads, int64_t values) { return std::min(threads, 1 + values / WORTH_A_THREAD); }
int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }
int64_t padded(int64_t H) { return parts(H, 16) * 16; }

struct Statistics {
    double mean, shift, rstd;
};
struct Pair {
    double first, second;
};

// Calls body(i, k, n) for vectors: k of the accumulators, n numbers.
template <int U, typename Body>
inline void sweep(int64_t begin, int64_t end, Body body) {
    int64_t i = begin;
    for (; i + U * LANES <= end; i += U * LANES)
#pragma GCC unroll 8
        for (int k = 0; k < U; ++k) body(i + k * LANES, k, LANES);
    for (; i + LANES <= end; i += LANES) body(i, 0, LANES);
    if (i < end) body(i, 0, int(end - i));
}
#ifndef PREFETCH
#define PREFETCH 1
#define RB 4
#define UB 1
#define SHORT 16384
#endif
#define EACH __attribute__((always_inline))

// Sums of x - center, and of its squares, over a span of R rows.
template <int R, int U>
inline void sum_deviations(const Number* x, int64_t H, int64_t begin, int64_t end, const double* center, Pair* sums) {
    Vector a[R][U]{}, b[R][U]{}, c[R];
    for (int r = 0; r < R; ++r) c[r] = all(center[r]);
    sweep<U>(begin, end, [&](int64_t i, int k, int n) EACH {
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            Vector d = load(x + r * H + i, n) - c[r];
            if (n < LANES) d = counted(d, n);
            a[r][k] += d;
            b[r][k] += d * d;
        }
    });
    for (int r = 0; r < R; ++r) sums[r].first += sum<U>(a[r]), sums[r].second += sum<U>(b[r]);
}

template <int R>
struct XHat {
    Vector mean[R], rstd[R], offset[R];
    XHat(const Statistics* s) {
        for (int r = 0; r < R; ++r) mean[r] = all(s[r].mean), rstd[r] = all(s[r].rstd), offset[r] = all(-s[r].shift * s[r].rstd);
    }
    Vector operator()(Vector x, int r) const { return (x - mean[r]) * rstd[r] + offset[r]; }
};

template <int R, int U, bool STREAM>
inline void normalize(const Number* x, const Parameter* weight, const Parameter* bias, Number* y, int64_t H,
                      int64_t begin, int64_t end, const Statistics* s) {
    const XHat<R> of(s);
    sweep<U>(begin, end, [&](int64_t i, int, int n) EACH {
        const Vector w = weight ? load(weight + i, n) : all(1), b = bias ? load(bias + i, n) : all(0);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const Vector out = of(load(x + r * H + i, n), r) * w + b;
            if (STREAM)
                stream(y + r * H + i, out);
            else
                store(y + r * H + i, out, n);
        }
        if (STREAM && PREFETCH) __builtin_prefetch(x + H + i);
    });
}

Statistics of(double mean, Pair sums, int64_t H, double eps) {
    const double shift = sums.first / H;
    return {mean, shift, 1 / std::sqrt(std::max(sums.second / H - shift * shift, 0.0) + eps)};
}

template <int R, int U, bool STREAM>
inline void forward_rows(const Number* x, const Parameter* weight, const Parameter* bias, Number* y, int64_t H,
                         double eps, Statistics* s) {
    double center[R];
    Pair sums[R]{};
    for (int r = 0; r < R; ++r) center[r] = real(x[r * H]);
    for (int64_t i = 0; i < H; i += SPAN) sum_deviations<R, U>(x, H, i, std::min(H, i + SPAN), center, sums);
    if constexpr (HALF || DOUBLE) {  // once more
        for (int r = 0; r < R; ++r) center[r] = Real(center[r] + sums[r].first / H), sums[r] = {};
        for (int64_t i = 0; i < H; i += SPAN) sum_deviations<R, U>(x, H, i, std::min(H, i + SPAN), center, sums);
    }
    for (int r = 0; r < R; ++r) s[r] = of(center[r], sums[r], H, eps);
    normalize<R, U, STREAM>(x, weight, bias, y, H, 0, H, s);
}

// Adds a vector to sums in double, exactly for double.
inline void add(double* sums, int64_t stride, Vector v) {
    if constexpr (HALF) {
        Doubles low, high;
        std::memcpy(&low, sums, BYTES), std::memcpy(&high, sums + DOUBLES, BYTES);
        Raw2 halves[2];
        std::memcpy(halves, &v, BYTES);
        low += to_double(halves[0]), high += to_double(halves[1]);
        std::memcpy(sums, &low, BYTES), std::memcpy(sums + DOUBLES, &high, BYTES);
    } else {
        Vector total;
        std::memcpy(&total, sums, BYTES);
        const Vector next = total + v;
        std::memcpy(sums, &next, BYTES);
        if constexpr (DOUBLE) {  // what that lost
            Vector lost;
            std::memcpy(&lost, sums + stride, BYTES);
            const Vector part = next - total;
            lost += (total - (next - part)) + (v - part);
            std::memcpy(sums + stride, &lost, BYTES);
        }
    }
}

struct Columns {  // dweight, dbias; for double, what rounding lost of each follows it
    double* sums;
    int64_t stride;
    double *dweight() const { return sums; }
    double *dbias() const { return sums + SUMS / 2 * stride; }
};

// One visit of R rows and some of their columns: sums of g = weight dy and of g x_hat if ROWS, of dy x_hat and dy over the
// rows if COLUMNS, dx if INPUT.
template <int R, int U, bool ROWS, bool COLUMNS, bool INPUT, bool STREAM>
inline void visit(const Number* dy, const Number* x, const Parameter* weight, Number* dx, int64_t H, int64_t begin,
                  int64_t end, const Statistics* s, Pair* sums, Columns columns) {
    const XHat<R> of(s);
    Vector a[R][U]{}, b[R][U]{}, mean_g[R], mean_gx[R];
    if constexpr (INPUT)
        for (int r = 0; r < R; ++r) mean_g[r] = all(sums[r].first), mean_gx[r] = all(sums[r].second);
    sweep<U>(begin, end, [&](int64_t i, int k, int n) EACH {
        const Vector w = weight ? load(weight + i, n) : all(1);
        Vector dweight{}, dbias{};
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const Vector grad = load(dy + r * H + i, n), x_hat = of(load(x + r * H + i, n), r), g = grad * w;
            if constexpr (ROWS) {
                a[r][k] += g;
                b[r][k] += g * x_hat;
            }
            if constexpr (COLUMNS) {
                if constexpr (DOUBLE) {
                    const Vector product = grad * x_hat;
                    add(columns.dweight() + i - begin, columns.stride, product);
                    add(columns.dbias() + i - begin, columns.stride, grad);
                } else {
                    dweight += grad * x_hat;
                    dbias += grad;
                }
            }
            if constexpr (INPUT) {
                const Vector out = (g - (mean_g[r] + x_hat * mean_gx[r])) * of.rstd[r];
                if (STREAM)
                    stream(dx + r * H + i, out);
                else
                    store(dx + r * H + i, out, n);
            }
        }
        if constexpr (COLUMNS && !DOUBLE) {
            add(columns.dweight() + i - begin, 0, dweight);
            add(columns.dbias() + i - begin, 0, dbias);
        }
        if (STREAM && PREFETCH) __builtin_prefetch(x + H + i), __builtin_prefetch(dy + H + i);
    });
    if constexpr (ROWS)
        for (int r = 0; r < R; ++r) sums[r].first += sum<U>(a[r]), sums[r].second += sum<U>(b[r]);
}

void huge(void* p, int64_t bytes) {
#ifdef MADV_HUGEPAGE
    constexpr uintptr_t PAGE = 1 << 21;
    const uintptr_t begin = ((uintptr_t)p + PAGE - 1) & -PAGE, end = ((uintptr_t)p + bytes) & -PAGE;
    if (begin < end && bytes >= 1 << 22) madvise((void*)begin, end - begin, MADV_HUGEPAGE);
#endif
}

bool streams(const void* p, int64_t B, int64_t H) {
    const int64_t row = H * sizeof(Number);
    return B * row >= BEYOND_CACHE && row % 64 == 0 && (uintptr_t)p % 64 == 0 && H % LANES == 0;
}

void fence() {
#if defined(WITH_AVX512) || defined(WITH_AVX2)
    _mm_sfence();
#endif
}

}  // namespace

extern "C" {

// x, y: (B, H); weight, bias: (H), or null; statistics: (3, B), or null.
void forward(int64_t B, int64_t H, int64_t threads, double eps, const Number* x, const Parameter* weight,
             const Parameter* bias, Number* y, double* statistics) {
    const int64_t bytes = B * H * sizeof(Number);
    const int64_t R = bytes <= IN_CACHE || 4 * H * sizeof(Number) <= SHORT ? 4 : 1;
    const bool far = streams(y, B, H);
    huge(y, bytes);
#pragma omp parallel num_threads(at_most(threads, B * H))
    {
#pragma omp for nowait
    for (int64_t block = 0; block < parts(B, R); ++block) {
        Statistics s[4];
        int64_t row = block * R, rows = std::min(R, B - row);
        if (far && rows == 4)
            forward_rows<4, 1, true>(x + row * H, weight, bias, y + row * H, H, eps, s);
        else if (far && R == 1)
            forward_rows<1, 4, true>(x + row * H, weight, bias, y + row * H, H, eps, s);
        else if (rows == 4)
            forward_rows<4, 1, false>(x + row * H, weight, bias, y + row * H, H, eps, s);
        else
            for (int64_t r = 0; r < rows; ++r)
                forward_rows<1, 4, false>(x + (row + r) * H, weight, bias, y + (row + r) * H, H, eps, s + r);
        if (statistics)
            for (int64_t r = 0; r < rows; ++r) {
                statistics[row + r] = s[r].mean;
                statistics[B + row + r] = s[r].shift;
                statistics[2 * B + row + r] = s[r].rstd;
            }
    }
    if (far) fence();
    }
}

int64_t scratch(int64_t B, int64_t H) {
    const int64_t few = 2 * B * (1 + parts(H, SPAN));
    return B < FEW || H >= LONG ? few : SUMS * padded(H) * std::min(B / 16, MOST_CHUNKS);
}

}

namespace {

template <int R, int U, bool STREAM>
inline void backward_rows(const Number* dy, const Number* x, const Parameter* weight, Number* dx, int64_t H, const double* statistics, int64_t B, Columns columns) {
    Statistics s[R];
    Pair sums[R]{};
    for (int r = 0; r < R; ++r) s[r] = {statistics[r], statistics[B + r], statistics[2 * B + r]};
    for (int64_t i = 0; i < H; i += SPAN) {
        const int64_t end = std::min(H, i + SPAN);
        if (columns.sums)
            visit<R, U, true, true, false, false>(dy, x, weight, nullptr, H, i, end, s, sums, {columns.sums + i, columns.stride});
        else
            visit<R, U, true, false, false, false>(dy, x, weight, nullptr, H, i, end, s, sums, columns);
    }
    if (!dx) return;
    for (int r = 0; r < R; ++r) sums[r].first /= H, sums[r].second /= H;
    visit<R, U, false, false, true, STREAM>(dy, x, weight, dx, H, 0, H, s, sums, columns);
}


double total(const double* sums, int64_t i, int64_t stride) { return DOUBLE ? sums[i] + sums[stride + i] : sums[i]; }

// Few rows, or long ones: first their sums, by spans; then everything else, by columns.
void backward_few(int64_t B, int64_t H, int64_t threads, const Number* dy, const Number* x, const double* statistics,
                  const Parameter* weight, Number* dx, Parameter* dweight, Parameter* dbias, double* scratch) {
    const int64_t spans = parts(H, SPAN), tiles = parts(H, TILE);
    Pair* sums = reinterpret_cast<Pair*>(scratch);  // of each row, then of its spans
    auto of = [&](int64_t row) { return Statistics{statistics[row], statistics[B + row], statistics[2 * B + row]}; };
#pragma omp parallel num_threads(at_most(threads, B * H))
    {
        if (dx) {
#pragma omp for
            for (int64_t part = 0; part < B * spans; ++part) {
                const int64_t row = part / spans, begin = part % spans * SPAN;
                const Statistics s = of(row);
                Pair found{};
                visit<1, 4, true, false, false, false>(dy + row * H, x + row * H, weight, nullptr, H, begin, std::min(H, begin + SPAN), &s, &found, {});
                sums[B + part] = found;
            }
#pragma omp for
            for (int64_t row = 0; row < B; ++row) {
                Pair all{};
                for (int64_t span = 0; span < spans; ++span) {
                    const Pair& part = sums[B + row * spans + span];
                    all.first += part.first, all.second += part.second;
                }
                sums[row] = {all.first / H, all.second / H};
            }
        }
#pragma omp for
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t begin = tile * TILE, end = std::min(H, begin + TILE);
            double of_columns[SUMS * TILE]{};
            const Columns columns{of_columns, TILE};
            for (int64_t row = 0; row < B; ++row) {
                const Statistics s = of(row);
                if (!dx)
                    visit<1, 1, false, true, false, false>(dy + row * H, x + row * H, weight, nullptr, H, begin, end, &s, nullptr, columns);
                else
                    visit<1, 1, false, true, true, false>(dy + row * H, x + row * H, weight, dx + row * H, H, begin, end, &s, sums + row, columns);
            }
            for (int64_t i = begin; i < end; ++i) {
                if (dweight) dweight[i] = total(columns.dweight(), i - begin, TILE);
                if (dbias) dbias[i] = total(columns.dbias(), i - begin, TILE);
            }
        }
    }
}

}

extern "C" {

void backward(int64_t B, int64_t H, int64_t threads, const Number* dy, const Number* x, const double* statistics,
              const Parameter* weight, Number* dx, Parameter* dweight, Parameter* dbias, double* scratch) {
    if (dx) huge(dx, B * H * sizeof(Number));
    if (B < FEW || H >= LONG) return backward_few(B, H, threads, dy, x, statistics, weight, dx, dweight, dbias, scratch);
    const int64_t chunks = std::min(B / 16, MOST_CHUNKS), rows = parts(B, chunks), stride = padded(H);
    const bool far = dx && streams(dx, B, H);
    const bool sums = dweight || dbias;
    const int64_t R = RB;
#pragma omp parallel num_threads(at_most(threads, B * H))
    {
#pragma omp for
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            Columns columns{sums ? scratch + chunk * SUMS * stride : nullptr, stride};
            if (sums) std::fill_n(columns.sums, SUMS * stride, 0.0);
            int64_t row = chunk * rows;
            const int64_t end = std::min(B, row + rows);
            auto at = [&](auto* p) { return p ? p + row * H : p; };
            for (; row + R <= end; row += R)
                far ? backward_rows<RB, UB, true>(at(dy), at(x), weight, at(dx), H, statistics + row, B, columns) : backward_rows<4, 1, false>(at(dy), at(x), weight, at(dx), H, statistics + row, B, columns);
            for (; row < end; ++row)
                backward_rows<1, 4, false>(at(dy), at(x), weight, at(dx), H, statistics + row, B, columns);
        }
        if (far) fence();
        if (sums)
#pragma omp for
            for (int64_t begin = 0; begin < H; begin += TILE) {
                const int64_t n = std::min(H - begin, TILE);
                double w[TILE]{}, b[TILE]{};
                for (int64_t chunk = 0; chunk < chunks; ++chunk) {
                    const Columns columns{scratch + chunk * SUMS * stride + begin, stride};
                    for (int64_t i = 0; i < n; ++i) w[i] += total(columns.dweight(), i, stride);
                    for (int64_t i = 0; i < n; ++i) b[i] += total(columns.dbias(), i, stride);
                }
                if (dweight) std::copy_n(w, n, dweight + begin);
                if (dbias) std::copy_n(b, n, dbias + begin);
            }
    }
}
}
