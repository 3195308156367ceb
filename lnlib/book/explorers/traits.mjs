/**
 * The traits, as Python declares them: what each can be, and how it goes on by steps; and a state of them in
 * words, which is what an address, or a link in the text, says.
 *
 * `eps=1e-8&spread=0.001` sets two of them; a list is written with commas.
 */
import { clamp, linearSteps, logSteps, roundTo, walk } from "./common.mjs";

/**
 * What the page needs of a number, or of each in a list: besides what is declared of it the stops of its
 * slider; `settle(value)`, which makes one that it can be; and `onward(value, by)`, so many steps on, which is
 * `each(v, by)` of one in a list.
 */
function numberOf(declared) {
  const { low, high, zero, step, per_decade: perDecade, round, whole } = declared;
  const [min, max] = declared.reach ?? [low, high];
  const steps = step ? linearSteps({ min, max, step }) : logSteps({ min, max, perDecade, zero });
  const fit = (v) => {
    if (zero && v === 0) return 0;
    const one = round ? v - (high - low) * Math.round(v / (high - low)) : v;
    return clamp(whole ? Math.round(one) : one, low, high) + 0; // -0 becomes 0
  };
  const settle = (value) => (Array.isArray(value) ? value.map(fit) : fit(value));
  const each = round ? (v, by) => settle(roundTo(v + by * step, 12)) : walk(steps, zero ? 0 : low, high);
  const onward = (value, by) => (Array.isArray(value) ? settle(value.map((v) => roundTo(v + by * step, 12))) : each(value, by));
  return { ...declared, steps, settle, each, onward };
}

/** The same of a choice: a number is the nearest of its options, and there is no word like one that is unknown. */
function choiceOf(declared) {
  const { options, first } = declared;
  const nearest = (v) => {
    const within = clamp(v, Math.min(...options), Math.max(...options));
    return options.reduce((a, b) => (Math.abs(b - within) < Math.abs(a - within) ? b : a));
  };
  const settle = (v) => (typeof first === "number" ? nearest(v) : options.find((option) => option === v));
  return { ...declared, settle, onward: (value, by) => settle(value + by) };
}

/** Of each trait, by its name. */
export function traitsOf(declared) {
  const made = ([name, one]) => [name, (one.options ? choiceOf : numberOf)({ name, ...one })];
  return Object.fromEntries(Object.entries(declared).map(made));
}

/** One value in words: 1e-5, not 0.00001. */
function inAddress(value) {
  if (Array.isArray(value)) return value.map(inAddress).join(",");
  const small = typeof value === "number" && Math.abs(value) < 1e-3 && value !== 0;
  return small ? value.toExponential() : encodeURIComponent(value);
}

/** What differs from `first`, as an address says it; "" if nothing does. */
export function stateText(state, first) {
  const changed = Object.entries(state).filter(([name, value]) => String(value) !== String(first[name]));
  return changed.map(([name, value]) => `${name}=${inAddress(value)}`).join("&");
}

/** One value of the type of `like`, or undefined if the words say none. */
function valueOf(said, like) {
  const number = (each) => (each.trim() === "" || !Number.isFinite(Number(each)) ? undefined : Number(each));
  if (typeof like === "number") return number(said);
  if (!Array.isArray(like)) return said;
  const all = said.split(",").map(number);
  return all.length === like.length && !all.includes(undefined) ? all : undefined;
}

/**
 * The traits that `text` sets, each as `settle(name, value)` takes it. What it says of an unknown trait,
 * or in words that are no value of it, is left out: an address may have been cut.
 */
export function readState(text, state, settle = (_, value) => value) {
  const said = [...new URLSearchParams(text)].filter(([name]) => Object.hasOwn(state, name));
  const values = said.map(([name, value]) => [name, valueOf(value, state[name])]);
  const taken = values.filter(([, value]) => value !== undefined).map(([name, value]) => [name, settle(name, value)]);
  return Object.fromEntries(taken.filter(([, value]) => value !== undefined));
}
