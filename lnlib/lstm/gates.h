// One step of one sequence of the layer-normalized LSTM, forward and backward, but for the products.
//
// All is float32. The four gates of a row follow each other in PyTorch's order i, f, candidate, o. The
// equations are those of `lnlib.lstm.formula`, and their gradient that of `lnlib.lstm.function`.

namespace {

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

// Each of R rows x becomes (x - mean) * rstd. After the mean is subtracted, what is left of it is its
// rounding error. That is subtracted as well: of a large mean it would be much.
template <int R>
inline void normalize(float* const (&x)[R], int64_t n, float eps, float* rstd) {
    float mean[R], rest[R], squares[R];
    const auto minus = [&](int64_t i, auto zero, float* row, float number) {
        const auto d = load<decltype(zero)>(row + i) - number;
        store(row + i, d);
        return d;
    };
    sum<R>(n, mean, [&](int64_t i, int r, auto zero) { return load<decltype(zero)>(x[r] + i); });
    for (float& number : mean) number /= n;
    sum<R>(n, rest, [&](int64_t i, int r, auto zero) { return minus(i, zero, x[r], mean[r]); });
    for (float& number : rest) number /= n;
    sum<R>(n, squares, [&](int64_t i, int r, auto zero) {
        const auto d = minus(i, zero, x[r], rest[r]);
        return d * d;
    });
    for (int r = 0; r < R; ++r) {
        // Squares that overflow make NaN, not zeros.
        const float var = squares[r] / n, factor = rstd[r] = 1.0f / __builtin_sqrtf(var + eps) + 0 * var;
        float* row = x[r];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) row[i] *= factor;
    }
}

// The gradient through `normalize`: out = rstd * (g - mean(g) - x_hat * mean(g * x_hat)), with
// g = weight * dy.
inline void normalize_backward(const float* dy, const float* weight, const float* x_hat, float rstd,
                               int64_t n, float* out) {
    float sums[2];
    sum<2>(n, sums, [=](int64_t i, int r, auto zero) {
        const auto g = load<decltype(zero)>(weight + i) * load<decltype(zero)>(dy + i);
        return r == 0 ? g : g * load<decltype(zero)>(x_hat + i);
    });
    const float mean_g = sums[0] / n, mean_gx_hat = sums[1] / n;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
        out[i] = rstd * (weight[i] * dy[i] - mean_g - x_hat[i] * mean_gx_hat);
}

// A layer's weights but for the matrices; a bias may be null for 0.
struct Layer {
    const float *bias, *norm_ih, *norm_hh, *norm_c, *norm_c_bias;
    int64_t size, carries_normalized;  // size is H
    float eps;
};

// What a step of a sequence is computed from, and what it leaves for the way back.
struct Row {
    const float *of_x, *of_h;     // W_x x and W_h h, normalized: (4H)
    float rstd_x, rstd_h, rstd_c;
    float *gates, *c_hat, *tanh_n;  // (4H), (H), (H)
};

// From the normalized products and the cell before to the state and the cell that goes on, which may lie
// where the one before does.
inline void forward_row(const Layer& layer, Row& row, const float* c_before, float* h, float* c) {
    const int64_t H = layer.size;
    float *i = row.gates, *f = i + H, *candidate = f + H, *o = candidate + H, *c_hat = row.c_hat;
#pragma omp simd
    for (int64_t k = 0; k < 4 * H; ++k)
        i[k] = layer.norm_ih[k] * row.of_x[k] + layer.norm_hh[k] * row.of_h[k] + (layer.bias ? layer.bias[k] : 0.0f);
#pragma omp simd
    for (int64_t k = 0; k < H; ++k) {
        i[k] = sigmoid(i[k]);
        f[k] = sigmoid(f[k]);
        candidate[k] = tanh_(candidate[k]);
        o[k] = sigmoid(o[k]);
        c[k] = f[k] * c_before[k] + i[k] * candidate[k];
        c_hat[k] = c[k];
    }
    normalize<1>({c_hat}, H, layer.eps, &row.rstd_c);
#pragma omp simd
    for (int64_t k = 0; k < H; ++k) {
        const float n = layer.norm_c[k] * c_hat[k] + (layer.norm_c_bias ? layer.norm_c_bias[k] : 0.0f);
        row.tanh_n[k] = tanh_(n);
        h[k] = o[k] * row.tanh_n[k];
        c[k] = layer.carries_normalized ? n : c[k];
    }
}

// Sums over rows: the gradients of norm_ih, norm_hh, bias (4H each), norm_c and norm_c_bias (H each).
constexpr int64_t SUMS = 14;  // times H

// From dh = dy + dh_after and dcarry to da_x and da_h, the gradients of W_x x and W_h h (4H each), and to the
// dcarry of the step before, in its place. dv (4H) and dn (H) are of the sums that enter the gates, and of
// the argument of the tanh of the cell.
inline void backward_row(const Layer& layer, const Row& row, const float* c_before, const float* dy,
                         const float* dh_after, float* dcarry, float* da_x, float* da_h, float* dv, float* dn,
                         float* sums) {
    const int64_t H = layer.size;
    const float *i = row.gates, *f = i + H, *candidate = f + H, *o = candidate + H, *tanh_n = row.tanh_n;
    float *di = dv, *df = di + H, *dcandidate = df + H, *d_o = dcandidate + H, *dc = da_x;
    float *dnorm_ih = sums, *dnorm_hh = sums + 4 * H, *dbias = sums + 8 * H, *dnorm_c = sums + 12 * H;
    float* dnorm_c_bias = dnorm_c + H;
#pragma omp simd
    for (int64_t k = 0; k < H; ++k) {
        const float dh = dy[k] + dh_after[k];
        d_o[k] = dh * tanh_n[k] * o[k] * (1.0f - o[k]);
        dn[k] = dh * o[k] * (1.0f - tanh_n[k] * tanh_n[k]);
        dn[k] += layer.carries_normalized ? dcarry[k] : 0.0f;
        dnorm_c[k] += dn[k] * row.c_hat[k];
        dnorm_c_bias[k] += dn[k];
    }
    normalize_backward(dn, layer.norm_c, row.c_hat, row.rstd_c, H, dc);
#pragma omp simd
    for (int64_t k = 0; k < H; ++k) {
        const float e = dc[k] + (layer.carries_normalized ? 0.0f : dcarry[k]);
        di[k] = e * candidate[k] * i[k] * (1.0f - i[k]);
        df[k] = e * c_before[k] * f[k] * (1.0f - f[k]);
        dcandidate[k] = e * i[k] * (1.0f - candidate[k] * candidate[k]);
        dcarry[k] = e * f[k];
    }
#pragma omp simd
    for (int64_t k = 0; k < 4 * H; ++k) {
        dnorm_ih[k] += dv[k] * row.of_x[k];
        dnorm_hh[k] += dv[k] * row.of_h[k];
        dbias[k] += dv[k];
    }
    normalize_backward(dv, layer.norm_ih, row.of_x, row.rstd_x, 4 * H, da_x);
    normalize_backward(dv, layer.norm_hh, row.of_h, row.rstd_h, 4 * H, da_h);
}

}  // namespace
