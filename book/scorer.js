// How the search ranks what it found: Sphinx's own weights; above them the page that book/_ext/synonyms.py names
// for what was typed, and a page that is named after the word. Without it a glossary entry would outrank the chapter.
var Scorer = { // var: the script behind may declare it again
  first: {/* FIRST */},
  // The page for all that was typed; else for the longest run of its words, first without those that every page is about.
  page(typed) {
    const subject = /(?<!\S)(layer[- ]?normalization|layer[- ]?norm|norm)(?!\S)/g;
    const runs = words => words.flatMap((_, cut) =>
      words.slice(0, cut + 1).map((_, start) => words.slice(start, start + words.length - cut).join(" ")));
    const tried = [typed, typed.replace(subject, " ")].map(some => runs(some.trim().split(/\s+/)));
    return Scorer.first[[tried[0][0], ...tried[1], ...tried[0]].find(run => Object.hasOwn(Scorer.first, run))];
  },
  score([page, , anchor, , score]) {
    const words = (new URLSearchParams(window.location.search).get("q") ?? "").toLowerCase().trim();
    if (Scorer.page(words) === page) return score + (anchor ? 500 : 1000);
    return score + (words && page.includes(words) ? 100 : 0);
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
