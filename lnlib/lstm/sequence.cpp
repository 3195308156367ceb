// The layer-normalized LSTM over packed sequences, forward and backward, one call each way.
//
// A step of an LSTM waits for the one before, but a sequence waits for no other. So each thread takes some
// sequences, a strand, through all steps by itself: threads do not wait for each other at every step, and a
// strand's state stays near the processor. Kept for the way back are W_h h normalized, the cells and the
// outputs, 6 H numbers a row; everything else a row is computed from them once more.
//
// No bit depends on the number of threads, and what a row becomes does not depend on the rows beside it. The
// gradients of weights are sums over rows: those of the matrices are products over a chunk of steps, each number one
// sum in the order of the rows; the others are added up by blocks of ROWS sequences, and these in their order.

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "vectors.h"  // which the others build on

#include "../cpp_kernel/pages.h"
#include "gates.h"
#include "product.h"

namespace {

constexpr int64_t STRAND = 32;              // sequences at most
constexpr int64_t CHUNK = 512;              // rows of which the gradients for weights wait to be added up
constexpr int64_t WORTH_A_THREAD = 1 << 19; // products; to wake another thread takes some microseconds

}  // namespace

// Rows are packed: those of the first step, then those of the second, and so on; a later step never has more.
// The members' order is that of `_Sequences` in cpp.py.
struct Sequences {
    int64_t steps, batch, input_size, threads;
    const int64_t* starts;                           // (steps + 1), the first row of each step, and how many there are
    const float *x, *h, *c, *weight_ih, *weight_hh;  // h, c: (batch, H), before the first step
    Layer layer;
    float *outputs;                  // (N, H)
    float *cells, *a_hat, *rstd_a;   // (N, H), (N, 4H), (N): kept for the way back; or all null
    float *last_h, *last_c;          // (batch, H); backward, their gradients, and then those of h and c
    const float* dy;                 // (N, H)
    float *dx;                       // (N, input_size), or null
    float *dweight_ih, *dweight_hh;  // as the weights, 0 at first; or both null
    double* sums;                    // (SUMS * H), likewise
};

namespace {

// Where each weight is read once or twice, it is not packed.
bool is_few(const Sequences& s) { return s.batch <= FEW && s.steps <= 2; }

int64_t rows_of(const Sequences& s, int64_t step) {
    return step < s.steps ? s.starts[step + 1] - s.starts[step] : 0;
}

const float* before(const Sequences& s, const float* first, const float* all, int64_t step, int64_t row) {
    return (step == 0 ? first : all + s.starts[step - 1] * s.layer.size) + row * s.layer.size;
}

// Hands out parts of the scratch memory; where there is none, it counts.
struct Scratch {
    float* memory;
    int64_t used = 0;

    float* take(int64_t numbers) {
        float* taken = memory ? memory + used : nullptr;
        used += parts(numbers, 16) * 16;
        return taken;
    }
};

// What a thread has for itself.
struct Own {
    float *a_x, *a_h, *cells;                           // of each sequence of a strand
    float *gates, *c_hat, *tanh_n, *dv, *dn, *slice;  // of one, and of a product

    Own(Scratch& scratch, int64_t H, int64_t strand) {
        a_x = scratch.take(strand * 4 * H), a_h = scratch.take(strand * 4 * H), cells = scratch.take(strand * H);
        gates = scratch.take(4 * H), c_hat = scratch.take(H), tanh_n = scratch.take(H);
        dv = scratch.take(4 * H), dn = scratch.take(H), slice = scratch.take(PACKED_SLICE);
    }
};

// How a pass divides its work, and where in the scratch memory it has what.
struct Plan {
    const Sequences& s;
    int64_t strand, strands, threads;
    float *ih, *hh, *back_ih, *back_hh;  // W_x and W_h, packed, and what gradients go back through
    // Backward, a chunk: some steps, and what the gradients of the weights are computed from when all strands have
    // gone through them.
    int64_t begin, end, rows;
    float *da_x, *da_h;  // (rows, 4H)
    float *x, *h;        // what they are multiplied by, packed
    float *sums;         // of each block of sequences
    float *of_threads;
    int64_t of_thread, used;

    Plan(const Sequences& sequences, bool is_backward, float* memory) : s(sequences) {
        const int64_t H = s.layer.size, I = s.input_size, products = s.starts[s.steps] * 4 * H * (H + I);
        // No more threads than there is work for: the system may refuse to start so many, and end the process.
        threads = std::max<int64_t>(1, std::min(s.threads, products / WORTH_A_THREAD));
        strand = std::min(STRAND, parts(parts(s.batch, threads), ROWS) * ROWS);
        strands = parts(s.batch, std::max<int64_t>(strand, 1));
        threads = std::max<int64_t>(1, std::min(threads, strands));
        Scratch scratch{memory}, own{nullptr};
        ih = scratch.take(packed_size(I, 4 * H));
        if (is_backward) {
            back_ih = scratch.take(packed_size(4 * H, I)), back_hh = scratch.take(packed_size(4 * H, H));
            const int64_t K = std::max(rows_of(s, 0), std::min(CHUNK, s.starts[s.steps]));
            da_x = scratch.take(K * 4 * H), da_h = scratch.take(K * 4 * H);
            x = scratch.take(packed_size(K, I)), h = scratch.take(packed_size(K, H));
            sums = scratch.take(parts(s.batch, ROWS) * SUMS * H);
        } else {
            hh = scratch.take(packed_size(H, 4 * H));
        }
        Own(own, H, strand);
        of_thread = own.used;
        of_threads = scratch.take(of_thread * threads);
        used = scratch.used;
    }

    Own own() const {
        Scratch scratch{of_threads + omp_get_thread_num() * of_thread};
        return Own(scratch, s.layer.size, strand);
    }

    // The last steps before `last` with no more than CHUNK rows, but one at least.
    void take_chunk(int64_t last) {
        for (begin = last - 1; begin > 0 && s.starts[last] - s.starts[begin - 1] <= CHUNK;) --begin;
        end = last, rows = s.starts[end] - s.starts[begin];
        std::fill_n(sums, parts(s.batch, ROWS) * SUMS * s.layer.size, 0.0f);
    }
};

// The sequences of a strand through all steps.
void forward_strand(const Plan& plan, int64_t number) {
    const Sequences& s = plan.s;
    const int64_t H = s.layer.size, I = s.input_size;
    const int64_t first = number * plan.strand, end = std::min(s.batch, first + plan.strand);
    const Own own = plan.own();
    if (!s.cells) std::copy(s.c + first * H, s.c + end * H, own.cells);
    for (int64_t step = 0; step < s.steps; ++step) {
        const int64_t rows = std::min(end, rows_of(s, step)) - first, start = s.starts[step] + first;
        if (rows <= 0) return;
        float* a_h = s.a_hat ? s.a_hat + start * 4 * H : own.a_h;
        const float *x = s.x + start * I, *h_before = before(s, s.h, s.outputs, step, first);
        if (is_few(s)) {
            multiply_few(x, rows, I, 4 * H, s.weight_ih, own.a_x);
            multiply_few(h_before, rows, H, 4 * H, s.weight_hh, a_h);
        } else {
            multiply(AsItIs{x, I}, rows, I, 4 * H, plan.ih, I, own.a_x, 4 * H);
            multiply(AsItIs{h_before, H}, rows, H, 4 * H, plan.hh, H, a_h, 4 * H);
        }
        for (int64_t r = 0; r < rows; ++r) {
            float *of_x = own.a_x + r * 4 * H, *of_h = a_h + r * 4 * H, rstd[2];
            normalize<2>({of_x, of_h}, 4 * H, s.layer.eps, rstd);
            if (s.rstd_a) s.rstd_a[start + r] = rstd[1];
            Row row{of_x, of_h, rstd[0], rstd[1], 0, own.gates, own.c_hat, own.tanh_n};
            const float* c_before = s.cells ? before(s, s.c, s.cells, step, first + r) : own.cells + r * H;
            float *h = s.outputs + (start + r) * H, *c = s.cells ? s.cells + (start + r) * H : own.cells + r * H;
            forward_row(s.layer, row, c_before, h, c);
            if (first + r < rows_of(s, step + 1)) continue;
            std::copy_n(h, H, s.last_h + (first + r) * H);
            std::copy_n(c, H, s.last_c + (first + r) * H);
        }
    }
}

// The sequences of a strand back over the steps of a chunk.
void backward_strand(const Plan& plan, int64_t number) {
    const Sequences& s = plan.s;
    const int64_t H = s.layer.size, I = s.input_size;
    const int64_t first = number * plan.strand, end = std::min(s.batch, first + plan.strand);
    const Own own = plan.own();
    for (int64_t step = plan.end - 1; step >= plan.begin; --step) {
        const int64_t rows = std::min(end, rows_of(s, step)) - first, start = s.starts[step] + first;
        if (rows <= 0) continue;
        const int64_t at = start - s.starts[plan.begin];
        float *da_x = plan.da_x + at * 4 * H, *da_h = plan.da_h + at * 4 * H;
        multiply(AsItIs{s.x + start * I, I}, rows, I, 4 * H, plan.ih, I, own.a_x, 4 * H);
        for (int64_t r = 0; r < rows; ++r) {
            float *of_x = own.a_x + r * 4 * H, rstd_x;
            normalize<1>({of_x}, 4 * H, s.layer.eps, &rstd_x);
            const float *of_h = s.a_hat + (start + r) * 4 * H, rstd_h = s.rstd_a[start + r];
            Row row{of_x, of_h, rstd_x, rstd_h, 0, own.gates, own.c_hat, own.tanh_n};
            const float* c_before = before(s, s.c, s.cells, step, first + r);
            // The state and the cell are there already, and made again where they are in nobody's way.
            forward_row(s.layer, row, c_before, own.dv, own.dn);
            backward_row(s.layer, row, c_before, s.dy + (start + r) * H, s.last_h + (first + r) * H,
                         s.last_c + (first + r) * H, da_x + r * 4 * H, da_h + r * 4 * H, own.dv, own.dn,
                         plan.sums + (first + r) / ROWS * SUMS * H);
            if (!s.sums) continue;
            pack_row(s.x + (start + r) * I, at + r, plan.rows, I, plan.x);
            pack_row(before(s, s.h, s.outputs, step, first + r), at + r, plan.rows, H, plan.h);
        }
        if (s.dx) multiply(AsItIs{da_x, 4 * H}, rows, 4 * H, I, plan.back_ih, 4 * H, s.dx + start * I, I);
        multiply(AsItIs{da_h, 4 * H}, rows, 4 * H, H, plan.back_hh, 4 * H, s.last_h + first * H, H);
    }
}

// Add a chunk's part to SLICE rows, from `first` on, of the gradient of a matrix: da (rows, 4H), transposed, by what
// is packed of (rows, N).
void add_product(const Plan& plan, const float* da, const float* packed, int64_t N, int64_t first, float* dweight) {
    const int64_t wide = 4 * plan.s.layer.size, columns = std::min(SLICE, wide - first);
    float* slice = plan.own().slice;
    for (int64_t k = 0; k < plan.rows; k += DEPTH) {
        const int64_t depth = std::min(DEPTH, plan.rows - k);
        pack_slice(da + k * wide + first, wide, depth, columns, slice);
        multiply(Transposed{slice}, columns, depth, N, packed + k * LANES, plan.rows, dweight + first * N, N, true);
    }
}

}  // namespace

extern "C" {

// How many floats of scratch memory a pass takes.
int64_t lstm_scratch(const Sequences* s, bool is_backward) { return Plan(*s, is_backward, nullptr).used; }

void lstm_forward(const Sequences* s, float* memory) {
    const Plan plan(*s, false, memory);
    const int64_t H = s->layer.size;
    if (s->a_hat) ask_for_huge_pages(s->a_hat, s->starts[s->steps] * 4 * H * sizeof(float));
    if (!is_few(*s)) {
        pack_transposed(s->weight_ih, s->input_size, 4 * H, plan.ih);
        pack_transposed(s->weight_hh, H, 4 * H, plan.hh);
    }
#pragma omp parallel for schedule(dynamic) num_threads(plan.threads)
    for (int64_t number = 0; number < plan.strands; ++number) forward_strand(plan, number);
}

void lstm_backward(const Sequences* s, float* memory) {
    Plan plan(*s, true, memory);
    const int64_t H = s->layer.size, I = s->input_size;
    pack_transposed(s->weight_ih, I, 4 * H, plan.ih);
    pack(s->weight_ih, 4 * H, I, plan.back_ih);
    pack(s->weight_hh, 4 * H, H, plan.back_hh);
    for (int64_t end = s->steps; end > 0; end = plan.begin) {
        plan.take_chunk(end);
#pragma omp parallel num_threads(plan.threads)
        {
#pragma omp for schedule(dynamic)
            for (int64_t number = 0; number < plan.strands; ++number) backward_strand(plan, number);
            if (s->sums) {
#pragma omp for schedule(dynamic) nowait
                for (int64_t first = 0; first < 4 * H; first += SLICE) {
                    add_product(plan, plan.da_x, plan.x, I, first, s->dweight_ih);
                    add_product(plan, plan.da_h, plan.h, H, first, s->dweight_hh);
                }
#pragma omp for
                for (int64_t k = 0; k < SUMS * H; ++k)
                    for (int64_t block = 0; block < parts(s->batch, ROWS); ++block)
                        s->sums[k] += plan.sums[block * SUMS * H + k];
            }
        }
    }
}

}  // extern "C"
