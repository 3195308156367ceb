/** What curves need: a logarithmic scale, and a path. */
import { clamp, linearScale, roundTo, tenth } from "./common.mjs";

/** linearScale on log10 of the value. With `zero`, a pixel, 0 has a place of its own there. */
export function logScale(d0, d1, r0, r1, zero = NaN) {
  const inner = linearScale(Math.log10(d0), Math.log10(d1), r0, r1);
  const scale = (v) => (v === 0 ? zero : inner(Math.log10(v)));
  scale.invert = (p) => {
    if (p < (zero + r0) / 2) return 0;
    return roundTo(10 ** inner.invert(clamp(p, r0, r1)));
  };
  return scale;
}

/** A path through [x, y] points. One that is not finite breaks the line; a lone one is a dot. */
export function linePath(points) {
  let path = "";
  let down = false;
  for (const [x, y] of points) {
    const finite = Number.isFinite(x) && Number.isFinite(y);
    if (finite) path += `${down ? "L" : "M"}${tenth(x)} ${tenth(y)}${down ? "" : "h.1"}`;
    down = finite;
  }
  return path;
}
