/**
 * The state of an explorer in words: what an address, or a link in the text, says of its traits.
 *
 * `eps=1e-8&spread=0.001` sets two of them; a list is written with commas.
 */

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
