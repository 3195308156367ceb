// The search: ranks the sections of the book (sections.js) for what was typed, by BM25 over their words, and shows each
// with the sentence that holds them. It loads nothing, so it works from a folder.
const SearchBook = (() => {
  // Spellings of one thing, in what is typed and in what is searched.
  const SPELLINGS = [
    [/\b(layer|batch|group|instance|rms)[- ]?norm(?:ali[sz]ation|s|ed)?\b/g, "$1norm"],
    [/\b(pre|post)[- ]?(?:ln|norm|layernorm)\b/g, "$1norm"],
    [/\bfp(16|32|64)\b/g, "float$1"], [/\bbf16\b/g, "bfloat16"], [/\bhalf precision\b/g, "float16"],
    [/\blayernorm(lstm|2d)/g, "layernorm $1"], [/ε/g, " eps "], [/\bepsilon\b/g, "eps"], [/γ/g, " gamma "], [/β/g, " beta "],
  ];
  const IDLE = new Set("a an and are as at be by can do does for from get has have how i if in is it its my need not of on one or should so that the there this to use using was what when where which why will with without you your".split(" "));
  const WEIGHTS = { typed: 6, title: 4, page: 2, text: 1 };

  const plain = text => SPELLINGS.reduce((said, [from, to]) => said.replace(from, to), text.toLowerCase());
  const stem = word => (word.length > 4 ? word.replace(/(?:i[sz]ations?|i[sz]ed?|i[sz]ing|ations?|ings?|ed|es|s|e)$/, "") : word);
  const tokens = text => (plain(text).match(/[\p{L}\p{N}]+/gu) ?? []).filter(word => !IDLE.has(word)).map(stem);

  /** Each section with how often each word stands in each of its fields, and how common each word is. */
  function index(sections) {
    const common = new Map();
    const read = sections.map(section => {
      const counts = new Map();
      const phrases = section.typed.map(tokens);
      const fields = { typed: phrases.flat(), title: tokens(section.title), page: tokens(section.page), text: tokens(section.text) };
      for (const [field, weight] of Object.entries(WEIGHTS)) {
        for (const word of fields[field]) counts.set(word, (counts.get(word) ?? 0) + weight);
      }
      for (const word of counts.keys()) common.set(word, (common.get(word) ?? 0) + 1);
      return { section, counts, length: fields.text.length, phrases: phrases.map(words => words.join(" ")) };
    });
    return { read, common, usual: read.reduce((sum, { length }) => sum + length, 0) / read.length };
  }

  /** The sections that have the words, best first; those that have all of them before those that have some. */
  function find({ read, common, usual }, typed) {
    const said = tokens(typed);
    const [words, asked] = [[...new Set(said)], ` ${said.join(" ")} `];
    const known = word => (common.has(word) ? [word] : [...common.keys()].filter(other => word.length > 2 && other.startsWith(word)));
    const wanted = words.map(known);
    const rarity = word => Math.log(1 + read.length / common.get(word));
    return read.map(({ section, counts, length, phrases }) => {
      let [score, had] = [0, 0];
      for (const spellings of wanted) {
        const best = Math.max(0, ...spellings.filter(word => counts.has(word)).map(word => {
          const often = counts.get(word);
          return rarity(word) * often * 2.2 / (often + 1.2 * (0.4 + 0.6 * length / usual));
        }));
        score += best;
        had += best > 0;
      }
      const meant = Math.max(0, ...phrases.filter(phrase => phrase && asked.includes(` ${phrase} `)).map(phrase => phrase.split(" ").length / words.length));
      return { section, score: score * (had / words.length) ** 2 * (1 + 3 * meant) };
    }).filter(({ score }) => score > 0).sort((a, b) => b.score - a.score).map(({ section }) => section);
  }

  /** The place in a text where most of the words stand together, as [text, is it a word] pieces. */
  function excerpt(text, typed) {
    const words = new Set(tokens(typed));
    const parts = text.split(/(?<=[.:?!]) /);
    const hits = part => new Set(tokens(part).filter(word => words.has(word))).size;
    const best = parts.reduce((at, part, i) => (hits(part) > hits(parts[at]) ? i : at), 0);
    const said = parts.slice(best).join(" ");
    const cut = said.length > 220 ? `${said.slice(0, said.lastIndexOf(" ", 220))} …` : said;
    return (best > 0 ? `… ${cut}` : cut).split(/([\p{L}\p{N}]+)/u).map(piece => [piece, tokens(piece).some(word => words.has(word))]);
  }
  return { index, find, excerpt };
})();

{
  const results = document.getElementById("search-results");
  const typed = new URLSearchParams(location.search).get("q")?.trim() ?? "";
  const make = (tag, properties, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  for (const field of document.querySelectorAll("input[name=q]")) field.value = typed;
  // Without a question: the pages.
  const found = typed ? SearchBook.find(SearchBook.index(LN_SECTIONS), typed) : LN_SECTIONS.filter(({ page }) => !page);
  const item = ({ url, title, page, text }) => make("li", {},
    make("a", { href: url, textContent: title }),
    make("span", { className: "ln-found-page", textContent: page }),
    make("p", {}, ...SearchBook.excerpt(text, typed).map(([piece, hit]) => (hit ? make("mark", { textContent: piece }) : piece))));
  const count = `${found.length || "No"} section${found.length === 1 ? "" : "s"} for “${typed}”`;
  const list = make("ol", {});
  const more = make("button", { type: "button", className: "ln-more", onclick: () => show(list.children.length + 15) });
  function show(until) {
    const from = list.children.length;
    list.append(...found.slice(from, until).map(item));
    if (from) list.children[from].querySelector("a").focus();
    const left = found.length - list.children.length;
    more.hidden = left === 0;
    more.textContent = `Show ${Math.min(left, 15)} more of ${left}`;
  }
  show(typed ? 15 : found.length);
  results.replaceChildren(make("p", { role: "status", textContent: typed ? count : "Type a question, a symptom or a name, or open a page:" }), list, more);
  if (typed) document.title = `${typed} – ${document.title}`;
}
