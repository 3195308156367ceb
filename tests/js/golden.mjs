// What the tests of the explorers' arithmetic share: cases that Python has written, and a comparison.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

export { assert, test };

/** { epsilon: [{ state, … }, …], … }, as tests/pages/goldens.py writes it; JSON's strings are NaN and ∞. */
export const golden = JSON.parse(readFileSync(process.env.LN_GOLDEN, "utf8"));

/** How an explorer starts. */
export const first = (kind) => golden[kind][0].state;

/** A test that runs `check(case, where)` on each of the states of one explorer. */
export const each = (kind, check) => () => golden[kind].forEach((one) => check(one, JSON.stringify(one.state)));

/** Lists and objects have the same numbers, each within `relative` of the expected one, or `absolute`. */
export function close(actual, expected, where, relative = 1e-12, absolute = 1e-13) {
  if (expected !== null && typeof expected === "object") {
    if (Array.isArray(expected)) assert.equal(actual.length, expected.length, where);
    for (const [key, one] of Object.entries(expected)) close(actual[key], one, `${where}.${key}`, relative, absolute);
    return;
  }
  const [a, e] = [actual, typeof expected === "boolean" ? expected : Number(expected)];
  if (a === e || Object.is(a, e)) return;
  assert.ok(Math.abs(a - e) <= relative * Math.abs(e) + absolute, `${where}: ${a}, expected ${e}`);
}

/** A table of states, each what differs from how one starts, with the verdict and the sentence that the page says of it. */
export const says = (kind, said, verdict, sentence) => () => {
  for (const [some, ...words] of said) {
    const state = { ...first(kind), ...some };
    assert.deepEqual([verdict(state), sentence(state)], words);
  }
};
