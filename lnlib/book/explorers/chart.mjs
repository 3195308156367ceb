/**
 * A drawing, as a list of marks that is made anew for each state: those that stay the same are not touched. Over it
 * lie handles, which are nodes of their own (handles.mjs).
 */
import { html, putAttribute, set, svg, tenth } from "./common.mjs";

/** The transform that puts a node at x, y. */
export const at = (x, y) => `translate(${x.toFixed(1)} ${y.toFixed(1)})`;

/** One mark, with those in it. */
export const mark = (tag, attributes, ...inner) => ({ tag, attributes, inner: inner.some(Array.isArray) ? inner.flat(Infinity) : inner });
export const path = (kind, d, more) => mark("path", { class: kind, d, ...more });
export const text = (kind, x, y, words, more) => mark("text", { class: `ln-text ${kind}`, x: tenth(x), y: tenth(y), text: words, ...more });

const none = mark("g", {});

/**
 * Draws marks into a node; false and null leave a place free, so that those after it stay who they are. What has
 * changed is written without a look at what is there, which takes as long.
 */
function pool(node) {
  const all = [];
  return (marks) => {
    marks.forEach((one, i) => {
      const next = one || none;
      const had = all[i];
      if (had?.mark === next) return;
      if (had?.mark.tag !== next.tag) {
        const made = svg(next.tag);
        if (had) had.node.replaceWith(made);
        else node.append(made);
        all[i] = { node: made, mark: mark(next.tag, {}), draw: null };
      }
      const { node: drawn, mark: { attributes: old } } = all[i];
      for (const name in old) if (!(name in next.attributes)) putAttribute(drawn, name, name === "text" ? "" : null);
      for (const name in next.attributes) if (old[name] !== next.attributes[name]) putAttribute(drawn, name, next.attributes[name]);
      if (next.inner.length || all[i].draw) (all[i].draw ??= pool(drawn))(next.inner);
      all[i].mark = next;
    });
    for (const { node: left } of all.splice(marks.length)) left.remove();
  };
}

/**
 * A drawing of the width of its place, in CSS pixels: text keeps its size. `height` may be a function of what `view` is given.
 * `view(width, state, shown, { guessing, said })` returns the marks, in lists of lists; `label(state, shown, …)` says
 * what is drawn. A drawing with handles is no image to those who cannot see it: it has the role "group".
 */
export function chart({ height, title = [], view, label, handles = [], role = handles.length ? "group" : "img" }) {
  const under = svg("g");
  const canvas = svg("svg", { role }, under, ...handles);
  const node = html("div", { class: "ln-chart" }, canvas);
  if (title.length) node.prepend(html("p", { class: "ln-title" }, ...title));
  const draw = pool(under);
  let width = 0;
  return {
    node,
    canvas,
    /** Take the width of the place; returns whether it has changed. */
    fit() {
      const room = Math.floor(node.clientWidth) || 640; // 640 until the page has laid it out
      if (room === width) return false;
      width = room;
      return true;
    },
    paint(...seen) {
      const high = typeof height === "function" ? height(width, ...seen) : height;
      set(canvas, { width, height: high, viewBox: `0 0 ${width} ${high}`, "aria-label": label(...seen) });
      draw(view(width, ...seen).flat(Infinity));
    },
  };
}

/** A bar from one end to another, `width` wide, upright or across. */
export const bar = (start, width, from, to) => `M${tenth(start)} ${tenth(from)}h${tenth(width)}V${tenth(to)}h${-tenth(width)}Z`;
export const barAcross = (start, width, from, to) => `M${tenth(from)} ${tenth(start)}H${tenth(to)}v${tenth(width)}H${tenth(from)}Z`;
