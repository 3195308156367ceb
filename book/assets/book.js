// On paper answers and solutions are open, and the colors are those of a light page.
addEventListener("beforeprint", () => {
  const { dataset } = document.documentElement;
  const theme = dataset.theme;
  dataset.theme = "light";
  addEventListener("afterprint", () => { dataset.theme = theme; }, { once: true });
  document.querySelectorAll("details:not([open], .hide)").forEach((details) => {
    details.open = true;
    addEventListener("afterprint", () => { details.open = false; }, { once: true });
  });
});
