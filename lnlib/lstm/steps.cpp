// One time step of the layer-normalized LSTM, forward and backward, but for the matrix product.
//
// What PyTorch does in thirty operations, each reading and writing memory, is one pass over a row
// here. Everything is float32, row-major and dense; the four gates of a row follow each other in
// PyTorch's order i, f, candidate, o. The equations are those of `lnlib.lstm.formula`.

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

constexpr int64_t WORTH_A_THREAD = 2048;  // numbers of a state; to wake another takes a microsecond

// No more threads than there is work for: the system may refuse to start so many, and end the process.
int64_t at_most(int64_t threads, int64_t numbers) {
    return std::min(threads, 1 + numbers / WORTH_A_THREAD);
}

// exp(x) to 2 units in the last place, written so that compilers turn it into vector code: the
// range reduction and polynomial of Cephes' expf.
inline float exp_(float x) {
    x = x > 88.0f ? 88.0f : x;
    x = x < -87.0f ? -87.0f : x;  // a NaN passes both
    const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    const float n = (x * 1.44269504f + shift) - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp_(-x)); }

// Small |x| by Cephes' polynomial: there 1 - 2 / (exp(2x) + 1) would lose digits.
inline float tanh_(float x) {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float small = p * z * x + x;
    const float large = 1.0f - 2.0f / (exp_(2.0f * x) + 1.0f);
    return z < 0.390625f ? small : large;
}

// x becomes (x - mean) * rstd; rstd is returned. After the mean is subtracted, what is left of it is
// its rounding error. That is subtracted as well: of a large mean it would be much.
inline float normalize(float* x, int64_t n, float eps) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    const float mean = sum / n;
    float rest = 0.0f;
#pragma omp simd reduction(+ : rest)
    for (int64_t i = 0; i < n; ++i) {
        x[i] -= mean;
        rest += x[i];
    }
    rest /= n;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; ++i) {
        x[i] -= rest;
        squares += x[i] * x[i];
    }
    const float rstd = 1.0f / __builtin_sqrtf(squares / n + eps);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) x[i] *= rstd;
    return rstd;
}

// The gradient through `normalize`: out = rstd * (g - mean(g) - x_hat * mean(g * x_hat)), with
// g = weight * dy. `out` may be `dy`.
inline void normalize_backward(const float* dy, const float* weight, const float* x_hat, float rstd,
                               int64_t n, float* out) {
    float mean_g = 0.0f, mean_gx_hat = 0.0f;
#pragma omp simd reduction(+ : mean_g, mean_gx_hat)
    for (int64_t i = 0; i < n; ++i) {
        const float g = weight[i] * dy[i];
        mean_g += g;
        mean_gx_hat += g * x_hat[i];
    }
    mean_g /= n;
    mean_gx_hat /= n;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
        out[i] = rstd * (weight[i] * dy[i] - mean_g - x_hat[i] * mean_gx_hat);
}

}  // namespace

extern "C" {

// The buffers of `Forward` and `Backward` in `lnlib.lstm.steps`, where they are explained.
struct Forward {
    int64_t size;  // H
    int64_t carries_normalized;
    int64_t threads;
    float eps;
    const float *weight_h, *weight_c, *bias_c;
    float *outputs, *carry, *gates, *a_hat, *c_hat, *tanh_n, *rstd_a, *rstd_c;
};

struct Backward {
    const float *dy, *dh;
    float *dcarry, *dv, *da, *dn;
};

// Rows [start, start + rows). Their cells come from row `before` of `carry` on, and go to `after`.
void forward_step(const Forward* s, int64_t start, int64_t rows, int64_t before, int64_t after) {
    const int64_t H = s->size;
#pragma omp parallel for num_threads(at_most(s->threads, rows * H))
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t at = start + row;
        const float* c_before = s->carry + (before + row) * H;
        float* a = s->a_hat + at * 4 * H;
        float* i = s->gates + at * 4 * H;
        float *f = i + H, *candidate = f + H, *o = candidate + H;
        float* c = s->carry + (after + row) * H;
        float* c_hat = s->c_hat + at * H;
        float* tanh_n = s->tanh_n + at * H;
        float* h = s->outputs + at * H;

        s->rstd_a[at] = normalize(a, 4 * H, s->eps);
#pragma omp simd
        for (int64_t k = 0; k < 4 * H; ++k) i[k] = s->weight_h[k] * a[k] + i[k];
#pragma omp simd
        for (int64_t k = 0; k < H; ++k) {
            i[k] = sigmoid(i[k]);
            f[k] = sigmoid(f[k]);
            candidate[k] = tanh_(candidate[k]);
            o[k] = sigmoid(o[k]);
            c[k] = f[k] * c_before[k] + i[k] * candidate[k];
            c_hat[k] = c[k];
        }
        s->rstd_c[at] = normalize(c_hat, H, s->eps);
#pragma omp simd
        for (int64_t k = 0; k < H; ++k) {
            const float n = s->weight_c[k] * c_hat[k] + s->bias_c[k];
            tanh_n[k] = tanh_(n);
            h[k] = o[k] * tanh_n[k];
            c[k] = s->carries_normalized ? n : c[k];
        }
    }
}

void backward_step(const Forward* s, const Backward* d, int64_t start, int64_t rows, int64_t before,
                   int64_t /* after */) {
    const int64_t H = s->size;
#pragma omp parallel for num_threads(at_most(s->threads, rows * H))
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t at = start + row;
        const float* i = s->gates + at * 4 * H;
        const float *f = i + H, *candidate = f + H, *o = candidate + H;
        const float* c_before = s->carry + (before + row) * H;
        const float* tanh_n = s->tanh_n + at * H;
        const float *dy = d->dy + at * H, *dh_after = d->dh + row * H;
        float* dcarry = d->dcarry + row * H;
        float* di = d->dv + at * 4 * H;
        float *df = di + H, *dcandidate = df + H, *d_o = dcandidate + H;
        float* dn = d->dn + at * H;
        float* dc = d->da + at * 4 * H;  // its final content comes last

#pragma omp simd
        for (int64_t k = 0; k < H; ++k) {
            const float dh = dy[k] + dh_after[k];
            d_o[k] = dh * tanh_n[k] * o[k] * (1.0f - o[k]);
            dn[k] = dh * o[k] * (1.0f - tanh_n[k] * tanh_n[k]);
            dn[k] += s->carries_normalized ? dcarry[k] : 0.0f;
        }
        normalize_backward(dn, s->weight_c, s->c_hat + at * H, s->rstd_c[at], H, dc);
#pragma omp simd
        for (int64_t k = 0; k < H; ++k) {
            const float e = dc[k] + (s->carries_normalized ? 0.0f : dcarry[k]);
            di[k] = e * candidate[k] * i[k] * (1.0f - i[k]);
            df[k] = e * c_before[k] * f[k] * (1.0f - f[k]);
            dcandidate[k] = e * i[k] * (1.0f - candidate[k] * candidate[k]);
            dcarry[k] = e * f[k];
        }
        normalize_backward(di, s->weight_h, s->a_hat + at * 4 * H, s->rstd_a[at], 4 * H,
                           d->da + at * 4 * H);
    }
}

}  // extern "C"
