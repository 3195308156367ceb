/** Layer norm of a row, and the way of a gradient back through it. */

/** The sum of products. */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

export const mean = (a) => a.reduce((sum, v) => sum + v, 0) / a.length;

/** The root mean square. */
export const sizeOf = (a) => Math.sqrt(dot(a, a) / a.length);

/**
 * Every term of layer norm without γ and β: mean, deviations from it, variance, standard deviation, what is divided
 * by, and x̂. All is reckoned from the first number on, so that σ of a constant row is exactly 0.
 */
export function layerNorm(x, eps = 0) {
  const moved = x.map((v) => v - x[0]);
  const middle = mean(moved);
  const centered = moved.map((v) => v - middle);
  const variance = dot(centered, centered) / x.length;
  const denominator = Math.sqrt(variance + eps);
  return { mean: x[0] + middle, centered, variance, std: Math.sqrt(variance), denominator, xHat: centered.map((v) => v / denominator) };
}

/** The gradient before a norm, from dy, the one after it. */
export function backThrough(dy, { xHat, denominator }) {
  const [middle, along] = [mean(dy), dot(dy, xHat) / dy.length];
  return dy.map((v, i) => (v - middle - xHat[i] * along) / denominator);
}
