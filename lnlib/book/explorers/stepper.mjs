/** Buttons that go by steps. */
import { clamp, html, onKeys, set } from "./common.mjs";
import { button } from "./controls.mjs";

/**
 * Buttons that take a trait by steps from 0 to `last(shown)`, [text, steps, name] each, and a count: "3 of 10".
 * The arrow keys on them step too, and Home and End go to the ends; `ahead` is 1 where → goes on, or -1. The count
 * begins at `from`.
 */
export function stepper({ change, commit, shows }, trait, moves, last, { ahead = 1, from = 0 } = {}) {
  let [here, end] = [0, 0];
  const leap = (by) => {
    here = clamp(here + by, 0, end); // two keys may come before it is painted
    change(trait, here);
    commit();
  };
  const buttons = moves.map(([text, by, name]) => button(text, () => leap(by), name ? { "aria-label": name } : {}));
  const count = html("span", { class: "ln-count" });
  const node = html("div", { class: "ln-controls ln-stepper", "data-trait": trait }, ...buttons, count);
  onKeys(node, { ArrowRight: ahead, ArrowLeft: -ahead, End: ahead * Infinity, Home: -ahead * Infinity }, leap);
  /** Show a step; one beyond the last is the last. */
  function paint(step, most) {
    [here, end] = [Math.min(step, most), most];
    set(count, { text: `${here + from} of ${end + from}` });
    moves.forEach(([, by], i) => set(buttons[i], { "aria-disabled": clamp(here + by, 0, end) === here }));
  }
  return shows({ node, paint }, ({ [trait]: step }, seen) => [step, last(seen)]);
}
