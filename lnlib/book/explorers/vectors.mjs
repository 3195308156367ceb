/**
 * Arithmetic of rows whose gradient is taken back through many steps.
 */

/** The sum of products. */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

const mean = (a) => a.reduce((sum, v) => sum + v, 0) / a.length;

/** The root mean square. */
export const sizeOf = (a) => Math.sqrt(dot(a, a) / a.length);

/** The standard deviation. */
export function spreadOf(a) {
  const middle = mean(a);
  return sizeOf(a.map((v) => v - middle));
}

/** Layer norm of a, without γ and β, and what it divides by. */
export function normalize(a, eps) {
  const middle = mean(a);
  const centered = a.map((v) => v - middle);
  const divisor = Math.sqrt(dot(centered, centered) / a.length + eps);
  return [centered.map((v) => v / divisor), divisor];
}

/** The gradient in front of a norm, from u, the one behind it. */
export function backThrough(u, xHat, divisor) {
  const [middle, along] = [mean(u), dot(u, xHat) / u.length];
  return u.map((v, i) => (v - middle - xHat[i] * along) / divisor);
}
