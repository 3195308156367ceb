// The predicates of the searches in lnlib/book/exercises/chapter_NN.py once more: why an answer is wrong, letter for
// letter, in the arithmetic that PyTorch does. `given` is what book/_ext/answers.py takes over from there.
const lnSearches = ((answers) => {
  "use strict";
  const { fixed, general } = answers;
  const f32 = Math.fround;

  /** PyTorch's sum in float64, to the last bit: four lanes, then the rest, then lane by lane. */
  function sumOf(x) {
    const whole = x.length - (x.length % 4);
    const lanes = [0, 0, 0, 0];
    let sum = 0;
    x.forEach((v, i) => { if (i < whole) lanes[i % 4] += v; else sum += v; });
    return lanes.reduce((total, lane) => total + lane, sum);
  }
  const meanOf = (x) => sumOf(x) / x.length;
  const largest = (x) => x.reduce((most, v) => (Number.isNaN(v) || v > most ? v : most), -Infinity);
  const sizes = (x) => x.map(Math.abs);
  const finite = (x) => x.every(Number.isFinite);
  const equal = (x) => x.every((v) => v === x[0]);

  /** lnlib.formula.terms in float64. */
  function terms(x, eps = 1e-5) {
    const mean = meanOf(x);
    const variance = meanOf(x.map((v) => (v - mean) * (v - mean)));
    const denominator = Math.sqrt(variance + eps);
    return { mean, variance, denominator, xHat: x.map((v) => (v - mean) * (1 / denominator)) };
  }

  /** Round to float16 as PyTorch does a float64: by way of float32, ties to even. */
  function toHalf(x) {
    const size = Math.abs(f32(x));
    if (!(size > 0 && size < Infinity)) return f32(x);
    if (size >= 65520) return Math.sign(x) * Infinity;
    const unit = 2 ** (Math.max(Math.floor(Math.log2(size)), -14) - 10);
    const below = Math.floor(size / unit), rest = size / unit - below;
    return Math.sign(x) * (below + (rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? 1 : 0)) * unit;
  }

  /** Four float32 numbers, averaged in float32. */
  const mean32 = ([a, b, c, d]) => f32(f32(f32(a + b) + c) + d) / 4;

  function degrees(a, b) {
    const unit = (x) => {
      const norm = Math.max(Math.sqrt(sumOf(x.map((v) => v * v))), 1e-8);
      return x.map((v) => v / norm);
    };
    const [u, v] = [unit(a), unit(b)];
    return (Math.acos(Math.min(Math.max(sumOf(u.map((w, i) => w * v[i])), -1), 1)) * 180) / Math.PI;
  }

  // Why the answer is wrong, or null: the predicates of chapter_NN.py, under the names of the searches.
  return {
    break_it: ({ data: x }) => {
      if (equal(x)) return "all four are equal; one must differ";
      if (!finite(x) || !Number.isFinite((terms(x).variance * 4) / 3)) return "finite numbers of an ordinary size, please";
      if (!(Math.sqrt(terms(terms(x).xHat).variance) < 0.1)) return "the standard deviation of x̂ is still above 0.1; bring the numbers closer together";
      return null;
    },
    smallest_half_eps({ data: [eps] }) {
      if (!(eps > 0 && eps < Infinity)) return "one positive number, please";
      if (toHalf(eps) === 0) return "in float16 this is zero; go up";
      if (toHalf(eps) > 2 ** -24) return "float16 has a smaller number above zero; go down";
      if (Math.abs(eps - 2 ** -24) > 2 ** -30) return "float16 rounds this to its smallest number; torch.tensor(your number).half().item() says to which";
      return null;
    },
    break_variance: ({ data: numbers }) => {
      const x = numbers.map(f32), mean = mean32(x);
      const variance = f32(mean32(x.map((v) => f32(v * v))) - f32(mean * mean));
      if (!Number.isFinite(variance)) return "the squares are not finite; use smaller numbers";
      if (equal(x)) return "as float32 all four are equal, so a variance of 0 is right";
      return variance > 0 ? "the one-pass variance is still positive; try a larger mean or a smaller spread" : null;
    },
    break_mean: ({ data: weight }, { row }) => {
      if (!Number.isFinite(meanOf(weight))) return "finite numbers of an ordinary size, please";
      if (Math.abs(meanOf(weight) - 1) > 1e-6) return `your values of γ average ${general(meanOf(weight), 3)}, not 1`;
      const lifted = meanOf(terms(row, 0).xHat.map((v, i) => v * weight[i]));
      if (lifted < 0.5 - 1e-9) return `the mean of y is ${fixed(lifted, 2)}; make γ larger ${lifted > 1e-9 ? "where x̂ is large" : "where x̂ is positive"}`;
      return null;
    },
    break_test: ({ data: dy }, { row, weight }) => {
      if (!finite(dy)) return "finite numbers, please";
      if (dy.every((v) => v === 0)) return "a dy of zeros passes every test; give another one";
      const most = largest(sizes(dy));
      const g = dy.map((v, i) => weight[i] * (v / most));
      if (largest(sizes(g.map((v) => v - meanOf(g)))) < 1e-6) return "γ ⊙ dy is constant, so the gradient is zero; find one that is not";
      const { xHat } = terms(row);
      const along = meanOf(g.map((v, i) => v * xHat[i]));
      return Math.abs(along) > 1e-6 ? `the mean of g x̂ is ${general(along, 2)} for your dy, scaled to a largest entry of 1` : null;
    },
    break_axis({ shape, data }) {
      const [B, H] = shape;
      if (shape.length !== 2 || Math.min(B, H) < 2) return "a list of at least two rows with at least two features each, please";
      if (!finite(data)) return "finite numbers, please";
      const rows = Array.from({ length: B }, (_, b) => data.slice(b * H, (b + 1) * H));
      const t = rows.map((row) => terms(row));
      if (!finite(t.map(({ variance }) => variance))) return "smaller numbers, please: the variance does not fit into float64";
      if (rows.every((row) => row.every((v, h) => v === rows[0][h]))) return "all rows are the same; let two differ";
      if (t.some(({ variance }) => variance < 1e-6)) return "a row is constant, or nearly so; let its features differ more";
      if (B !== H) return `PyTorch stops: x̃ has ${H} features in a row, s has ${B} rows, and ${H} is not ${B}`;
      const off = largest(rows.flatMap((row, b) => row.map((v, h) => Math.abs(t[b].xHat[h] - (v - t[b].mean) / t[h].denominator))));
      return off <= 1e-6 ? null : `it runs, and is off by ${general(off, 1)}: feature k is divided by the s of row k`;
    },
    break_eps: ({ data: x }, { said, meant }) => {
      const large = terms(x, said).denominator;
      if (!Number.isFinite(large)) return "finite numbers, please, with a finite variance";
      if (equal(x)) return "all four are equal, so x̂ is 0 for any ε; one must differ";
      const share = terms(x, meant).denominator / large;
      return share >= 0.01 ? `x̂ still has ${fixed(100 * share, 1)}% of its length; bring the numbers closer to each other` : null;
    },
    break_careless: ({ data: x }) => {
      const { mean, variance } = terms(x);
      if (!Number.isFinite(variance)) return "finite numbers, please, with a finite variance";
      if (equal(x)) return "all six are equal, so their variance is 0; one must differ";
      const factor = (variance + (2 / 6) * (mean * mean)) / variance;
      return factor < 1000 ? `it comes out ${general(factor, 3)} times as large; two padded lanes hold −μ, so let μ be large and the standard deviation small` : null;
    },
    break_forgetting: ({ data: [gate] }, { cell }) => {
      if (!(gate >= 0 && gate <= 1)) return "a gate is between 0 and 1";
      const sizeOf = (x) => Math.sqrt(meanOf(x.map((v) => v * v)));
      const raw = cell.map((v) => gate * v);
      if (sizeOf(raw) > 0.05) return `the raw cell still has size ${general(sizeOf(raw), 2)}; close the gate further`;
      const left = sizeOf(terms(raw).xHat);
      return left < 0.9 ? `the normalized cell has size ${general(left, 2)}: so small a cell is swallowed by ε` : null;
    },
    break_pre_norm: ({ data: x }, { branch }) => {
      if (!x.every((v) => Math.abs(v) <= 1e100)) return "finite numbers below 1e100, please";
      if (x.every((v) => v === 0)) return "a row of zeros has no direction";
      const { xHat } = terms(x);
      const turned = degrees(x, x.map((v, k) => v + sumOf(branch[k].map((w, i) => w * xHat[i]))));
      return turned > 1 ? `the block turns your row by ${general(turned, 3)} degrees; how long can W LN(x) become?` : null;
    },
    break_half: ({ data: x }, { below }) => {
      if (!x.every((v) => Math.abs(v) < below)) return `all four must lie between −${below} and ${below}`;
      const half = x.map(toHalf), mean = toHalf(mean32(half));
      if (equal(half)) return "all four are equal in float16; one must differ";
      const most = largest(half.map((v) => toHalf(toHalf(v - mean) ** 2)));
      return Number.isFinite(most) ? `the largest squared deviation, ${fixed(most, 0)}, still fits into float16` : null;
    },
    gray: ({ data: [eps] }, { variance }) => {
      if (!(eps > 0 && eps < Infinity)) return "ε is a positive number";
      const [full, half] = [1, 0.5].map((x) => x / Math.sqrt(x * x + eps / variance));
      if (half / full > 0.55) return `half the ink counts as ${general(half / full, 2)} of full ink; ε is too small`;
      return full < 0.4 ? `full ink has the factor ${general(full, 2)} only; ε is too large` : null;
    },
    one_step: ({ data: values }, { steps }) => {
      for (const [i, [name, truth, slips]] of steps.entries()) {
        const value = values[i], near = (other) => Math.abs(value - other) <= 0.01;
        if (!near(truth)) return `${name}: ${slips.find(([slip]) => near(slip))?.[1] ?? (value > truth ? "too large" : "too small")}`;
      }
      return null;
    },
  };
})(typeof module === "undefined" ? lnAnswers : require("./answers.js"));
if (typeof module !== "undefined") module.exports = lnSearches;
