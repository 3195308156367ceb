// How the search ranks what it found: Sphinx's own weights, and a page that is named after the
// word comes first. Without it a glossary entry would outrank the chapter.
var Scorer = { // var: the script behind may declare it again
  score([page, , , , score]) {
    const words = new URLSearchParams(window.location.search).get("q") ?? "";
    return score + (words && page.includes(words.toLowerCase()) ? 100 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
