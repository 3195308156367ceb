// An equation is broken in two where the screen is narrow, and there alone (book/_ext/breaks.py).
if (window.MathJax) {
  const narrow = matchMedia("(max-width: 768px)").matches;
  window.MathJax.tex.macros = { softbreak: narrow ? "\\\\&\\;\\;" : "" };
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
