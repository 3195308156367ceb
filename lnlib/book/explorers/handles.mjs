/**
 * What a reader takes hold of in a drawing: handles, which are dragged and steered by keys, and areas,
 * over which a stroke moves something.
 */
import { clamp, decimal, formatNumber, onKeys, set, sub, svg, tenth } from "./common.mjs";

/** Arrows within a ring that goes up and down. */
export const upDown = "M-2.5 -1.5L0 -4L2.5 -1.5M-2.5 1.5L0 4L2.5 1.5";

/**
 * A ring to take something by, with or without arrows, in a square of 44 px for a finger; `more` stands over it.
 * Where rings crowd, a finger takes one within `near` px: beside it the page scrolls, until a tap has given it the focus.
 */
export function makeRing({ r = 8, arrows = "", near = 0, ...attributes }, ...more) {
  const target = svg("rect", { class: "ln-target", x: -22, y: -22, width: 44, height: 44 });
  const ring = [svg("circle", { class: "ln-ring", r }), svg("path", { class: "ln-arrows", d: arrows })];
  if (near) more.push(svg("circle", { class: "ln-near", r: near }));
  return { target, node: svg("g", { class: "ln-handle", ...attributes }, target, ...ring, ...more) };
}

/**
 * Follow one pointer from where it goes down on `node`, part of a drawing, until it goes up, to wherever
 * it goes meanwhile. Places are those of the drawing, so the page may scroll under the pointer.
 * `cancel` is called should the browser take the pointer away.
 */
function follow(node, touchAction, { down, move, up, cancel }) {
  const near = node.querySelector(".ln-near");
  // What is inline, as parts of an SVG are, does not heed it.
  Object.assign((near ?? node).style, { touchAction, display: "block" });
  let pointer = null;
  const place = ({ clientX, clientY }) => {
    const { left, top } = node.ownerSVGElement.getBoundingClientRect();
    return [clientX - left, clientY - top];
  };
  const finish = (done) => (event) => {
    if (event.pointerId !== pointer) return;
    pointer = null;
    done(place(event));
  };
  node.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || pointer !== null) return; // a second finger has no say
    if (near && event.pointerType === "touch" && event.target !== near && node !== document.activeElement) return;
    pointer = event.pointerId;
    node.setPointerCapture(pointer);
    down(place(event), event.pointerType);
  });
  node.addEventListener("pointermove", (event) => {
    if (event.pointerId === pointer) move(place(event));
  });
  node.addEventListener("pointerup", finish(up));
  node.addEventListener("lostpointercapture", finish(cancel)); // follows a pointercancel
}

/**
 * Let `handle` be dragged, with a finger in every direction. `where(x, y)` is its place [x, y]
 * when it is grabbed there; `move(x, y)` gets the pointer's, less the distance between the two.
 */
export function draggable(handle, { where, move, end }) {
  let offset = [0, 0];
  follow(handle, "none", {
    down(place) {
      const mine = where(...place);
      offset = place.map((v, i) => v - mine[i]);
    },
    move: (place) => move(...place.map((v, i) => v - offset[i])),
    up: end,
    cancel: end,
  });
}

const SIDEWAYS = 8; // px by which a finger has to go sideways before it moves anything

/**
 * Let sideways strokes over `area` put a value, while a finger that strokes up or down scrolls the page
 * and changes nothing. `now()` is the value; `to(x, from, before)` is what a stroke from one x to another
 * makes of the value it found, at a height y. With `press`, a click or a tap puts one too.
 */
export function strokable(area, { now, to, put, end, press = false }) {
  let [from, before, begun] = [[0, 0], null, false];
  const go = ([x, y]) => put(to(x, from[0], before, y));
  follow(area, "pan-y", {
    down(place, kind) {
      [from, before, begun] = [place, now(), kind === "mouse"];
      if (begun && press) go(place);
    },
    move(place) {
      const [across, along] = place.map((v, i) => Math.abs(v - from[i]));
      begun ||= across >= SIDEWAYS && across > along;
      if (begun) go(place);
    },
    up(place) {
      if (!begun && press) go(place);
      if (begun || press) end();
    },
    cancel() {
      if (!begun) return;
      put(before); // the browser has taken the finger for one that scrolls
      end();
    },
  });
}

/**
 * Let `handle` be moved by keys: `step(right, up)` gets the steps in each direction. An arrow is one step,
 * ten with Shift; PageUp and PageDown are ten up and down; Home and End go left and right, `far` steps.
 * Where only one direction counts that is to the ends. A handle is a slider from `low` to `high` to those who
 * cannot see it: keep its `aria-valuenow` and `aria-valuetext` up to date.
 */
export function steerable(handle, { name, low, high, orientation = null, step, end, far = Infinity }) {
  const arrows = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const leaps = { PageUp: [0, 10], PageDown: [0, -10], End: [far, 0], Home: [-far, 0] };
  set(handle, { role: "slider", tabindex: 0, "aria-label": name, "aria-orientation": orientation, "aria-valuemin": decimal(low), "aria-valuemax": decimal(high) });
  onKeys(handle, arrows, (steps, shift) => step(...steps.map((v) => (shift ? 10 * v : v))));
  onKeys(handle, leaps, (steps) => step(...steps));
  handle.addEventListener("keyup", end);
}

/** A pill at the top of a drawing, to be dragged sideways: `paint(words, x, width)` keeps it within the width where it stands at x. */
export function makePill(attributes) {
  const pill = svg("rect", { class: "ln-pill", y: 1, height: 26, rx: 13 });
  const name = svg("text", { class: "ln-text ln-pill-name", y: 18.5 });
  const target = svg("rect", { class: "ln-target", x: -44, width: 88, y: 0, height: 44 });
  return {
    node: svg("g", { class: "ln-handle ln-later", ...attributes }, target, pill, name),
    paint(words, x, width) {
      const text = `‹ ${words} ›`;
      const size = text.length * 7 + 18;
      const off = clamp(x, size / 2 + 1, width - size / 2 - 1) - x;
      set(pill, { width: size, x: tenth(off - size / 2) });
      set(name, { x: tenth(off), text });
    },
  };
}

/** What to take hold of while the reader is asked, with a question mark in it; `more` lies under it. */
export function makeAsked(...more) {
  const mark = svg("text", { class: "ln-text ln-moved", y: 5, "text-anchor": "middle", text: "?" });
  return svg("g", { class: "ln-handle ln-guess ln-asking" }, ...more, svg("circle", { class: "ln-target", r: 23 }), svg("circle", { class: "ln-ring", r: 12 }), mark);
}

/**
 * Let handles put a number each: dragged along "x" or "y" of a scale, and by keys. Several are one stop for Tab,
 * and the arrows across go from each to the next. `of` is the trait (traits.mjs), `value(i)` and `put(i, v)` are a
 * number of it; `scale()` is the scale with its inverse; `grain` rounds what a hand puts, which lets go by `up`; `names` are for those who
 * cannot see them. ↑ and → are onward, or where the scale goes down ↓ and →. Where a hand does more than put a number, `drag(i)` is what `draggable` takes; `onward(v, by, i)`
 * is a number so many steps on. Returns what moves them: `paint(transform, words)`, two functions of a value and its place.
 */
export function grips(handles, { of, value, put, end, up = end, names, along, scale, grain = (v) => v, drag, onward = of.each }) {
  const nameOf = (i) => names?.[i] ?? `${of.title} ${of.symbol}${handles.length > 1 ? sub(i) : ` (${of.unit})`}`;
  const [low, high, orientation] = [of.zero ? 0 : of.low, of.high, along === "x" ? "horizontal" : "vertical"];
  const stop = (which) => handles.length > 1 && handles.forEach((one, i) => set(one, { tabindex: i === which ? 0 : -1 }));
  const place = (x, y) => (along === "x" ? x : y);
  handles.forEach((handle, i) => {
    const where = () => scale()(value(i));
    draggable(handle, drag?.(i) ?? { where: () => (along === "x" ? [where(), 0] : [0, where()]), move: (x, y) => put(i, grain(scale().invert(place(x, y)))), end: up });
    const step = (right, up) => {
      const down = along === "y" && scale && scale()(high) > scale()(low);
      const across = along === "x" ? -up : right;
      if (handles.length > 1 && Math.abs(across) === 1) handles[clamp(i + across, 0, handles.length - 1)].focus();
      else put(i, onward(value(i), down ? right - up : right + up, i));
    };
    steerable(handle, { name: nameOf(i), low, high, orientation, step, end });
    handle.addEventListener("focus", () => stop(i));
  });
  stop(0);
  const told = (v) => (of.symbol ? `${of.symbol} = ${formatNumber(v)}` : formatNumber(v));
  return (transform, words = told) => handles.forEach((handle, i) => {
    const v = value(i);
    set(handle, { transform: transform(v, i), "aria-valuenow": decimal(v), "aria-valuetext": words(v, i) });
  });
}
