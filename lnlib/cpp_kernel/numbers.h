// Vectors of numbers: from memory to the type of the arithmetic, and back.
//
// NUMBER names what the rows hold: float, double, bfloat16 or float16. It is widened as it is loaded
// and rounded once, to the nearest, as it is stored. A vector fills one register of the processor that
// is compiled for: AVX-512, AVX2, or what GCC makes of 16 bytes elsewhere.

#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#endif

namespace {

struct bfloat16 {
    uint16_t bits;
};
struct float16 {
    uint16_t bits;
};

using Number = NUMBER;
constexpr bool HALF = sizeof(Number) == 2, DOUBLE = sizeof(Number) == 8;
using Real = std::conditional_t<HALF, float, double>;         // of the arithmetic
using Parameter = std::conditional_t<DOUBLE, double, float>;  // of weight and bias, and their gradients

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define HAS_AVX512
constexpr int BYTES = 64;
#elif defined(__AVX2__) && defined(__F16C__)
#define HAS_AVX2
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif
constexpr int LANES = BYTES / sizeof(Real);

template <typename T, int N>
struct Of {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};
using Vector = Of<Real, LANES>::type;
using Words = Of<uint32_t, LANES>::type;
using Places = Of<std::conditional_t<HALF, int32_t, int64_t>, LANES>::type;
template <typename T>  // as it lies in memory, one number a lane
using Raw = typename Of<std::conditional_t<sizeof(T) == 2, uint16_t, T>, LANES>::type;

inline Vector all(Real value) { return Vector{} + value; }

// A product that is not to be fused with what it is added to: of equal products nothing is left over.
inline Vector rounded(Vector product) {
#if defined(__has_builtin) && __has_builtin(__builtin_assoc_barrier)  // GCC 12
    return __builtin_assoc_barrier(product);
#else
    return product;
#endif
}

// The first n lanes of v, and 0.
inline Vector first(int n, Vector v) {
    Places place;
    for (int i = 0; i < LANES; ++i) place[i] = i;
    return place < n ? v : Vector{};
}

// ---- The end of a row: n numbers, and 0 in the other lanes. Beyond them may be no memory.

template <typename T>
inline Raw<T> read(const T* p, int n) {
#ifdef HAS_AVX512
    if constexpr (sizeof(Raw<T>) == 64 && sizeof(T) == 8)
        return (Raw<T>)_mm512_maskz_loadu_epi64((1u << n) - 1, p);
    else if constexpr (sizeof(Raw<T>) == 64)
        return (Raw<T>)_mm512_maskz_loadu_epi32((1u << n) - 1, p);
    else if constexpr (sizeof(T) == 4)
        return (Raw<T>)_mm256_maskz_loadu_epi32((1u << n) - 1, p);
    else
        return (Raw<T>)_mm256_maskz_loadu_epi16((1u << n) - 1, p);
#else
    Raw<T> raw{};
    std::memcpy(&raw, p, n * sizeof(T));
    return raw;
#endif
}

template <typename T>
inline void write(T* p, Raw<T> raw, int n) {
#ifdef HAS_AVX512
    if constexpr (sizeof(Raw<T>) == 64 && sizeof(T) == 8)
        _mm512_mask_storeu_epi64(p, (1u << n) - 1, (__m512i)raw);
    else if constexpr (sizeof(Raw<T>) == 64)
        _mm512_mask_storeu_epi32(p, (1u << n) - 1, (__m512i)raw);
    else if constexpr (sizeof(T) == 4)
        _mm256_mask_storeu_epi32(p, (1u << n) - 1, (__m256i)raw);
    else
        _mm256_mask_storeu_epi16(p, (1u << n) - 1, (__m256i)raw);
#else
    std::memcpy(p, &raw, n * sizeof(T));
#endif
}

// ---- Widen and round. Where the processor has an instruction for it, it is named: for
// __builtin_convertvector GCC 12 cuts a register into halves and puts them together again.

template <typename T>
inline Vector widen(Raw<T> raw) {
    if constexpr (std::is_same_v<T, Real>) {
        return (Vector)raw;
    } else if constexpr (std::is_same_v<T, float>) {
#if defined(HAS_AVX512)
        return (Vector)_mm512_cvtps_pd((__m256)raw);
#elif defined(HAS_AVX2)
        return (Vector)_mm256_cvtps_pd((__m128)raw);
#else
        return (Vector)__builtin_convertvector(raw, Vector);
#endif
    } else if constexpr (std::is_same_v<T, bfloat16>) {  // the upper half of a float
#if defined(HAS_AVX512)
        return (Vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)raw), 16);
#elif defined(HAS_AVX2)
        return (Vector)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)raw), 16);
#else
        return (Vector)(__builtin_convertvector(raw, Words) << 16);
#endif
    } else {
#if defined(HAS_AVX512)
        return (Vector)_mm512_cvtph_ps((__m256i)raw);
#elif defined(HAS_AVX2)
        return (Vector)_mm256_cvtph_ps((__m128i)raw);
#else
        // A float has three more bits of exponent, whose bias is larger by 112. The product puts
        // subnormals right as well; infinity and NaN keep the largest exponent.
        const Words bits = __builtin_convertvector(raw, Words), size = (bits & 0x7fff) << 13;
        const Words finite = (Words)((Vector)size * 0x1p112f);
        return (Vector)((size >= 0x0f800000 ? size | 0x7f800000 : finite) | (bits & 0x8000) << 16);
#endif
    }
}

// V is Vector: a parameter, so that what a type of numbers has no use for is not compiled.
template <typename T, typename V>
inline Raw<T> narrow(V v) {
    if constexpr (std::is_same_v<T, Real>) {
        return (Raw<T>)v;
    } else if constexpr (std::is_same_v<T, float>) {
        return __builtin_convertvector(v, Raw<T>);
    } else if constexpr (std::is_same_v<T, bfloat16>) {
        const Words bits = (Words)v;
        const Words nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // of two, the even one
        const Words rounded = v == v ? nearest : bits >> 16 | 0x40;      // NaN stays NaN
#ifdef HAS_AVX512
        return (Raw<T>)_mm512_cvtepi32_epi16((__m512i)rounded);
#else
        return __builtin_convertvector(rounded, Raw<T>);
#endif
    } else {
#if defined(HAS_AVX512)
        return (Raw<T>)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
#elif defined(HAS_AVX2)
        return (Raw<T>)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
        const Words bits = (Words)v, size = bits & 0x7fffffff;
        const Words nearest = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
        const Words tiny = (Words)((Vector)size + 0.5f) - 0x3f000000;  // the sum rounds a subnormal
        const Words huge = size > 0x7f800000 ? Words{} + 0x7e00 : Words{} + 0x7c00;
        const Words rounded = size < 0x38800000 ? tiny : size >= 0x477ff000 ? huge : nearest;
        return __builtin_convertvector(rounded | (bits >> 16 & 0x8000), Raw<T>);
#endif
    }
}

// ---- Load and store n numbers; n is known when compiling but where a row ends.

template <typename T>
inline Vector load(const T* p, int n = LANES) {
    if (n < LANES) return widen<T>(read(p, n));
    Raw<T> raw;
    std::memcpy(&raw, p, sizeof raw);
    return widen<T>(raw);
}

template <typename T>
inline void store(T* p, Vector v, int n = LANES) {
    const Raw<T> raw = narrow<T, Vector>(v);
    if (n < LANES)
        write(p, raw, n);
    else
        std::memcpy(p, &raw, sizeof raw);
}

inline double as_double(Number x) {
    Raw<Number> raw{};
    std::memcpy(&raw, &x, sizeof x);
    return widen<Number>(raw)[0];
}

// ---- Sums in double.

constexpr int DOUBLES = BYTES / sizeof(double);
using Doubles = Of<double, DOUBLES>::type;

struct Halves {  // of a vector; of one in double, itself and nothing
    Doubles low, high;
};

template <typename V>  // as in `narrow`
inline Halves in_double(V v) {
    if constexpr (std::is_same_v<V, Doubles>) {
        return {v, Doubles{}};
    } else {
        typename Of<float, DOUBLES>::type floats[2];
        std::memcpy(floats, &v, sizeof v);
#if defined(HAS_AVX512)
        return {(Doubles)_mm512_cvtps_pd((__m256)floats[0]), (Doubles)_mm512_cvtps_pd((__m256)floats[1])};
#elif defined(HAS_AVX2)
        return {(Doubles)_mm256_cvtps_pd((__m128)floats[0]), (Doubles)_mm256_cvtps_pd((__m128)floats[1])};
#else
        return {__builtin_convertvector(floats[0], Doubles), __builtin_convertvector(floats[1], Doubles)};
#endif
    }
}

template <int N>
inline double sum_lanes(typename Of<double, N>::type v) {
    if constexpr (N == 2) {
        return v[0] + v[1];
    } else {
        typename Of<double, N / 2>::type halves[2];
        std::memcpy(halves, &v, sizeof v);
        return sum_lanes<N / 2>(halves[0] + halves[1]);
    }
}

// The sum of all lanes of U vectors.
template <int U>
inline double sum(const Vector* v) {
    Vector total = v[0];
    for (int k = 1; k < U; ++k) total += v[k];
    const Halves halves = in_double<Vector>(total);
    return sum_lanes<DOUBLES>(halves.low + halves.high);
}

}  // namespace
