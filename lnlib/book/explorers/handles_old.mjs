/**
 * What a reader takes hold of in a drawing: handles, which are dragged and steered by keys, and areas,
 * over which a stroke moves something.
 */
import { ownKeys, set, svg } from "./common_old.mjs";

/** Arrows within a ring that goes up and down. */
export const upDown = "M-2.5 -1.5L0 -4L2.5 -1.5M-2.5 1.5L0 4L2.5 1.5";

/** A ring to take something by, with or without arrows, in a square of 44 px for a finger; `more` stands over it. */
export function makeRing({ r = 8, arrows = "", ...attributes }, ...more) {
  const target = svg("rect", { class: "ln-target", x: -22, y: -22, width: 44, height: 44 });
  const ring = [svg("circle", { class: "ln-ring", r }), svg("path", { class: "ln-arrows", d: arrows })];
  return { target, node: svg("g", { class: "ln-handle", ...attributes }, target, ...ring, ...more) };
}


/**
 * Follow one pointer from where it goes down on `node`, part of a drawing, until it goes up, to wherever
 * it goes meanwhile. Places are those of the drawing, so the page may scroll under the pointer.
 * `cancel` is called should the browser take the pointer away.
 */
function follow(node, touchAction, { down, move, up, cancel }) {
  node.style.touchAction = touchAction;
  // It does nothing for what is inline, and so are parts of an SVG.
  node.style.display = "block";
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
 * makes of the value it found. With `press`, a click or a tap puts one too.
 */
export function strokable(area, { now, to, put, end, press = false }) {
  let [from, before, begun] = [[0, 0], null, false];
  const go = ([x]) => put(to(x, from[0], before));
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
 * Where only one direction counts that is to the ends. A handle is a slider to those who cannot see it:
 * keep its `aria-valuenow` and `aria-valuetext` up to date.
 */
export function steerable(handle, { name, step, end, far = Infinity }) {
  const arrows = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const leaps = { PageUp: [0, 10], PageDown: [0, -10], End: [far, 0], Home: [-far, 0] };
  set(handle, { role: "slider", tabindex: 0, "aria-label": name, ...ownKeys });
  handle.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return; // the browser’s: Alt and ← go back
    const size = event.shiftKey ? 10 : 1;
    const steps = arrows[event.key]?.map((v) => v * size) ?? leaps[event.key];
    if (steps === undefined) return;
    event.preventDefault(); // the page would scroll
    step(...steps);
  });
  handle.addEventListener("keyup", end);
}
