// Layer norm of float32 rows, forward and backward, each row in one visit.
//
// What PyTorch does in thirty operations, each reading and writing memory, is two or three sweeps
// over a row that is near the processor. All arithmetic is in double, so a result is rounded once, and
// a rounded mean is off by less than a float32 can show: unlike `lnlib.composed`, which also works in
// narrower types, nothing has to be centered twice. The gradient is that of `lnlib.closed_form`. Rows are
// dense. Nothing depends on the number of threads, not even the last bit.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

constexpr int64_t WORTH_A_THREAD = 8192;  // values; to wake another thread takes some microseconds

// No more threads than there is work for: the system may refuse to start so many, and end the process.
int64_t at_most(int64_t threads, int64_t values) {
    return std::min(threads, 1 + values / WORTH_A_THREAD);
}

}  // namespace

extern "C" {

// x, y: (B, H); weight, bias: (H); mean, rstd: (B).
void forward(int64_t B, int64_t H, int64_t threads, double eps, const float* x, const double* weight,
             const double* bias, float* y, double* mean, double* rstd) {
#pragma omp parallel for num_threads(at_most(threads, B * H))
    for (int64_t row = 0; row < B; ++row) {
        const float* in = x + row * H;
        float* out = y + row * H;
        // Measured from its first value, a constant row is all zeros, and stays so.
        const double first = in[0];
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < H; ++i) sum += in[i] - first;
        const double m = first + sum / H;
        double squares = 0;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < H; ++i) squares += (in[i] - m) * (in[i] - m);
        const double r = 1 / std::sqrt(squares / H + eps);
#pragma omp simd
        for (int64_t i = 0; i < H; ++i) out[i] = (in[i] - m) * r * weight[i] + bias[i];
        mean[row] = m;
        rstd[row] = r;
    }
}

// dy, x, dx: (B, H); mean, rstd: (B); weight: (H); sums: (chunks, 2, H), zeros, to which each chunk of
// rows adds its part of dweight and dbias. Without dx, where it is null, there are the sums alone.
void backward(int64_t B, int64_t H, int64_t threads, int64_t chunks, const float* dy, const float* x,
              const double* mean, const double* rstd, const double* weight, float* dx,
              double* sums) {
    const int64_t rows = (B + chunks - 1) / chunks;
#pragma omp parallel for num_threads(at_most(threads, B * H))
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        double *dweight = sums + chunk * 2 * H, *dbias = dweight + H;
        for (int64_t row = chunk * rows; row < std::min(B, (chunk + 1) * rows); ++row) {
            const float *in = x + row * H, *grad = dy + row * H;
            const double m = mean[row], r = rstd[row];
            double mean_g = 0, mean_gx_hat = 0;  // of g = weight * dy
#pragma omp simd reduction(+ : mean_g, mean_gx_hat)
            for (int64_t i = 0; i < H; ++i) {
                const double x_hat = (in[i] - m) * r, g = grad[i] * weight[i];
                mean_g += g;
                mean_gx_hat += g * x_hat;
                dweight[i] += grad[i] * x_hat;
                dbias[i] += grad[i];
            }
            if (dx == nullptr) continue;
            mean_g /= H;
            mean_gx_hat /= H;
            float* out = dx + row * H;
#pragma omp simd
            for (int64_t i = 0; i < H; ++i) {
                const double x_hat = (in[i] - m) * r;
                out[i] = (grad[i] * weight[i] - (mean_g + x_hat * mean_gx_hat)) * r;
            }
        }
    }
}

}  // extern "C"
