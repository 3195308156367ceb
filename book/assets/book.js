// Answers and solutions are folded on the screen and open on paper.
addEventListener("beforeprint", () => {
  document.querySelectorAll("details:not([open], .hide)").forEach((details) => {
    details.open = true;
    addEventListener("afterprint", () => { details.open = false; }, { once: true });
  });
});
