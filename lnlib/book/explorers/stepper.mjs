/** Buttons that go by steps, and perhaps a slider beside them. */
import { clamp, html, onKeys, set } from "./common.mjs";
import { button, rangeOf } from "./controls.mjs";

/**
 * Buttons that take a trait by steps from 0 to `last(shown)`, [text, steps, name] each, and a count: "3 of 10".
 * The arrow keys on them step too, and Home and End go to the ends; `ahead` is 1 where → goes on, or -1. The count
 * begins at `from`. With `slide`, its name, there is a slider as well.
 */
export function stepper({ change, commit, shows }, trait, moves, last, { ahead = 1, from = 0, slide = "" } = {}) {
  let [here, end] = [0, 0];
  const go = (step) => {
    here = clamp(step, 0, end); // two keys may come before it is painted
    change(trait, here);
  };
  const leap = (by) => {
    go(here + by);
    commit();
  };
  const buttons = moves.map(([text, by, name]) => button(text, () => leap(by), name ? { "aria-label": name } : {}));
  const count = html("span", { class: "ln-count" });
  const range = rangeOf({ now: () => here, to: (step) => step, put: go, commit });
  const track = slide ? html("div", { class: "ln-slide" }, html("label", {}, html("span", { text: slide }), range), count) : count;
  const node = html("div", { class: "ln-controls ln-stepper", "data-trait": trait }, ...buttons);
  node.insertBefore(track, slide ? buttons[1] : null);
  onKeys(node, { ArrowRight: ahead, ArrowLeft: -ahead, End: ahead * Infinity, Home: -ahead * Infinity }, leap);
  /** Show a step; one beyond the last is the last. */
  function paint(step, most) {
    [here, end] = [Math.min(step, most), most];
    const words = `${here + from} of ${end + from}`;
    set(count, { text: words });
    set(range, { max: end, "aria-valuetext": words });
    range.value = here;
    moves.forEach(([, by], i) => set(buttons[i], { "aria-disabled": clamp(here + by, 0, end) === here }));
  }
  return shows({ node, paint }, ({ [trait]: step }, seen) => [step, last(seen)]);
}
