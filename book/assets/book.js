// The faces are in a style sheet: they are there before the first text is drawn, which would move otherwise.
for (const face of document.fonts) face.load();

// Equations take longer than all else: they come once the explorers are painted, or are late.
if (window.MathJax) {
  // One is broken in two where the screen is narrow, and there alone (book/_ext/breaks.py).
  const narrow = matchMedia("(max-width: 768px)").matches;
  window.MathJax.tex.macros = { softbreak: narrow ? "\\\\&\\quad{}" : "" };

  const pause = () => new Promise((done) => setTimeout(done));
  const painted = new Promise((done) => addEventListener("ln-mounted", () => requestAnimationFrame(() => setTimeout(done))));
  const late = new Promise((done) => setTimeout(done, 1000));
  window.MathJax.startup = {
    async pageReady() {
      const dressed = faces();
      if (document.querySelector(".ln-explorer-output")) await Promise.race([painted, late]);
      await dressed;
      await typeset();
    },
  };

  /** Load the faces of most equations, whose heights would change when they come. */
  async function faces() {
    await MathJax.typesetPromise([]); // its style sheet names them
    await Promise.allSettled(["", "-I", "-B", "-S1", "-S2"].map((face) => document.fonts.load(`1em MJXTEX${face}`)));
  }

  /** How far an equation is from what the reader sees; in a closed fold it is farthest. */
  function distance(equation) {
    if (!equation.checkVisibility()) return Infinity;
    const { top, bottom } = equation.getBoundingClientRect();
    return Math.max(top - innerHeight, -bottom, 0);
  }

  /** Typeset a few at a time, so that the page answers in between; what is looked at stays in its place. */
  async function typeset() {
    const far = new Map([...document.querySelectorAll(".math")].map((equation) => [equation, distance(equation)]));
    const left = [...far.keys()].sort((one, other) => far.get(one) - far.get(other));
    while (left.length) {
      const seen = scrollY > 0 && document.elementFromPoint(innerWidth / 2, 100);
      const top = () => seen.getBoundingClientRect().top;
      const before = seen && top();
      await MathJax.typesetPromise(left.splice(0, 12));
      if (seen?.isConnected) scrollBy({ top: top() - before, behavior: "instant" });
      await pause();
    }
  }
}

// Bootstrap would follow every link of a page, in search of the section in sight: the list of sections for which
// it does so is not shown.
addEventListener("DOMContentLoaded", () => document.body.removeAttribute("data-bs-spy"));

// On paper answers and solutions are open, and the colors are those of a light page.
addEventListener("beforeprint", () => {
  const { dataset } = document.documentElement;
  const theme = dataset.theme;
  dataset.theme = "light";
  addEventListener("afterprint", () => { dataset.theme = theme; }, { once: true });
  document.querySelectorAll("details:not([open], .hide, .ln-check)").forEach((details) => {
    details.open = true;
    addEventListener("afterprint", () => { details.open = false; }, { once: true });
  });
});

// Going back, or loading again, leads to where the reader was. The browser goes there while the explorers
// are still missing and the page is shorter: it is done again once they stand, unless the reader moves.
{
  let top = performance.getEntriesByType("navigation")[0].type === "navigate" ? undefined : history.state?.lnTop;
  for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) {
    addEventListener(name, () => { top = undefined; }, { capture: true, once: true, passive: true });
  }
  const loaded = new Promise((done) => addEventListener("load", done));
  addEventListener("ln-mounted", async () => {
    await loaded;
    await window.MathJax?.startup?.promise;
    if (top !== undefined) scrollTo({ top, behavior: "instant" });
    const save = () => history.replaceState({ ...history.state, lnTop: scrollY }, "");
    save();
    let due;
    addEventListener("scroll", () => {
      clearTimeout(due);
      due = setTimeout(save, 100);
    }, { passive: true });
    addEventListener("pagehide", save);
  });
}
