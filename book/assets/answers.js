// Judges what is typed for an exercise as lnlib/book/exercises does in Python, letter for letter: reads the text and
// compares values. The predicates of searches are in searches.js. A classic script, since browsers refuse module
// files on file://; Node requires it.
const lnAnswers = (() => {
  "use strict";
  class NotAnAnswer extends Error {}

  // --- numbers as Python writes them -------------------------------------------------------------------

  /** What toFixed or toExponential writes of a size, with a tie taken to the even digit and not up. */
  function toEven(size, method, digits) {
    const exact = size[method](100);
    const [, down, rest, exponent] = exact.match(`^(\\d+\\.\\d{${digits}})(\\d*)(.*)$`);
    const isTie = /^50*$/.test(rest) && "02468".includes(down.replace(/\.$/, "").at(-1));
    return isTie ? down.replace(/\.$/, "") + exponent : size[method](digits);
  }

  const signOf = (x) => (x < 0 || Object.is(x, -0) ? "-" : "");
  const named = (x) => (Number.isNaN(x) ? "nan" : `${signOf(x)}inf`);

  /** Python's `.{digits}f`. */
  function fixed(x, digits) {
    if (!Number.isFinite(x)) return named(x);
    const size = Math.abs(x);
    return signOf(x) + (size < 1e21 ? toEven(size, "toFixed", digits) : `${BigInt(size)}${digits ? "." : ""}${"0".repeat(digits)}`);
  }

  /** Python's `.{digits}g`. */
  function general(x, digits) {
    if (!Number.isFinite(x)) return named(x);
    const text = toEven(Math.abs(x), "toExponential", digits - 1);
    const exponent = Number(text.split("e")[1]);
    const short = (s) => (s.includes(".") ? s.replace(/\.?0+$/, "") : s);
    if (exponent >= -4 && exponent < digits) return signOf(x) + short(Number(text).toFixed(digits - 1 - exponent));
    const power = `${Math.abs(exponent)}`.padStart(2, "0");
    return `${signOf(x)}${short(text.split("e")[0])}e${exponent < 0 ? "-" : "+"}${power}`;
  }

  const quoted = (word) => (/'/.test(word) && !/"/.test(word) ? `"${word}"` : `'${word.replace(/[\\']/g, "\\$&")}'`);

  // --- what was typed ----------------------------------------------------------------------------------

  const TOKEN = /\s*(?:((?:\d+\.?\d*|\.\d+)(?:e[+−-]?\d+)?)|([\p{L}_][\p{L}\p{M}\p{N}_.]*)|"([^"]*)"|'([^']*)'|([⁺⁻]?[⁰¹²³⁴-⁹]+)|(\*\*|[-−+*·×/^()[\],;√∞]))/iuy;
  const WORDS = { true: true, yes: true, false: false, no: false, inf: Infinity, infinity: Infinity, nan: NaN };

  function tokensOf(text) {
    const tokens = [];
    for (TOKEN.lastIndex = 0; TOKEN.lastIndex < text.length;) {
      const found = TOKEN.exec(text);
      if (!found) throw new SyntaxError(text);
      const [all, number, word, ...rest] = found;
      const sign = rest.pop(), raised = rest.pop();
      const apart = /^\s+[-−+]$/.test(all) && /^\S/.test(text.slice(TOKEN.lastIndex)); // as in 1 -2, not as in 1 - 2
      if (number) tokens.push({ value: Number(number.replace("−", "-")) });
      else if (raised) tokens.push({ sign: "**" }, { value: Number(raised.normalize("NFKC").replace("−", "-")) });
      else if (sign === "∞") tokens.push({ value: Infinity });
      else if (sign) tokens.push({ sign: { "−": "-", "^": "**", "·": "*", "×": "*", ";": "," }[sign] ?? sign, apart });
      else if (word) {
        const name = word.replace(/^(math|np|torch)\./, "");
        tokens.push(/^(float|sqrt)$/.test(name) ? { sign: name } : { value: WORDS[name.toLowerCase()] ?? word });
      } else tokens.push({ value: rest.find((t) => t !== undefined) });
    }
    return tokens;
  }

  /**
   * Read a number, a word, true or false, or a list of them, nested or not, with or without the outer
   * brackets, its items apart by commas, semicolons or blanks, and perhaps with a name before it, as in ε = 1/9. A number
   * may be written as arithmetic: 2**-24, 1.11·10⁻⁵, -3/sqrt(5).
   */
  function parse(text) {
    const tokens = tokensOf(text.trim().replace(/^[\p{L}_][\p{L}\p{M}\p{N}_]*\s*=/u, ""));
    let at = 0;
    const next = (sign) => tokens[at]?.sign === sign && ++at;
    const need = (sign) => { if (!next(sign)) throw new SyntaxError(text); };
    const real = (x) => {
      if (typeof x !== "number") throw new SyntaxError(text);
      return x;
    };
    const more = () => next(",") || tokens[at]?.apart || typeof tokens[at]?.value === "number"; // a blank will do
    const list = (end) => {
      const items = [];
      while (!next(end)) {
        items.push(sum());
        if (!more()) { need(end); break; }
      }
      return items;
    };
    function atom() {
      if (next("[")) return list("]");
      if (next("(")) {
        const start = at, items = list(")");
        return items.length === 1 && tokens[at - 2].sign !== "," && at > start ? items[0] : items;
      }
      if (next("float")) {
        need("(");
        const value = sum();
        need(")");
        return real(typeof value === "string" ? parse(value) : value);
      }
      if (next("sqrt") || next("√")) return Math.sqrt(real(atom()));
      if (!tokens[at] || tokens[at].sign) throw new SyntaxError(text);
      return tokens[at++].value;
    }
    function power() {
      const base = atom();
      return next("**") ? real(base) ** real(unary()) : base;
    }
    function unary() {
      if (next("-")) return -real(unary());
      return next("+") ? real(unary()) : power();
    }
    function product() {
      let x = unary();
      for (;;) {
        if (next("*")) x = real(x) * real(unary());
        else if (next("/")) {
          const by = real(unary());
          if (by === 0) throw new SyntaxError(text);
          x = real(x) / by;
        } else return x;
      }
    }
    function sum() {
      let x = product();
      for (;;) {
        if (tokens[at]?.apart) return x;
        if (next("+")) x = real(x) + real(product());
        else if (next("-")) x = real(x) - real(product());
        else return x;
      }
    }
    const first = sum();
    if (at === tokens.length) return first;
    const items = [first];
    while (more() && at < tokens.length) items.push(sum());
    if (at < tokens.length) throw new SyntaxError(text);
    return items;
  }

  // --- lnlib/book/exercises/answer.py ------------------------------------------------------------------

  const tuple = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;

  /** An array of any shape, or null for what is no numbers. */
  function toArray(value) {
    if (typeof value === "string") return null;
    if (!Array.isArray(value)) return { shape: [], data: [Number(value)], bool: value === true || value === false };
    const parts = value.map(toArray);
    if (parts.includes(null)) return null;
    const shapes = [...new Map(parts.map(({ shape }) => [tuple(shape), shape])).values()];
    if (shapes.length > 1) {
      const before = (a, b) => a.map((n, i) => n - (b[i] ?? -1)).find((d) => d) ?? -1;
      const sorted = shapes.sort(before).map(tuple).join(", ");
      throw new NotAnAnswer(`a list whose parts have the shapes [${sorted}] is not one array`);
    }
    const bool = parts.length > 0 && parts.every((part) => part.bool);
    return { shape: [parts.length, ...(shapes[0] ?? [])], data: parts.flatMap((part) => part.data), bool };
  }

  function read(value) {
    if (typeof value === "string") return value.trim().toLowerCase();
    let array;
    try {
      array = toArray(value);
    } catch (error) {
      throw new NotAnAnswer(`not yet: the result cannot be read: ${error.message}`);
    }
    if (!array) throw new NotAnAnswer("not yet: that is a list, not numbers");
    return array;
  }

  function form(shape, noun = "number") {
    if (shape.length === 1 && shape[0] === 1) return `a list of one ${noun}`;
    return shape.length ? `${shape.join(" × ")} ${noun}s` : `one ${noun}`;
  }

  const counted = (n) => ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"][n] ?? `${n}`;

  /** How many digits are asked for if `mine` is `truth` with fewer, else 0. */
  function digitsAsked(mine, truth, within) {
    const rounded = (n) => truth.map((x) => Number(general(x, n).replace("inf", "Infinity")));
    const off = (a, b) => (a === b ? 0 : Math.abs(a - b));
    const near = mine.map((x, i) => off(x, truth[i]) <= within);
    for (let n = 1; n < 18; n++) {
      const some = rounded(n);
      if (truth.every((x, i) => off(x, some[i]) <= within)) return near.every(Boolean) ? n : 0;
      some.forEach((b, i) => { near[i] ||= off(mine[i], b) <= 1e-9 * Math.abs(b); });
    }
    return 0;
  }

  function placeIn(place, shape) {
    if (place.length > 2) return ` at [${place.join(", ")}], counted from 0`;
    const [row, column] = place.map((i, axis) => `${i + 1} of ${shape[axis]}`);
    return [``, ` at place ${row}`, ` in row ${row}, column ${column}`][place.length];
  }

  function misfit(mine, truth) {
    const word = typeof truth === "string";
    if (typeof mine === "string" || word) return typeof mine === "string" && word ? null : `the answer is ${word ? "a word" : "not a word"}`;
    const noun = truth.bool ? "value" : "number";
    if (tuple(mine.shape) !== tuple(truth.shape)) return `${form(mine.shape, noun)} instead of ${form(truth.shape, noun)}`;
    const kind = (bool) => (bool ? "True or False" : "numbers");
    return mine.bool === truth.bool ? null : `${kind(mine.bool)} instead of ${kind(truth.bool)}`;
  }

  /** The largest difference of two outcomes that fit, and where it is. */
  function gap(mine, truth) {
    if (typeof mine === "string") return [mine === truth ? 0 : Infinity, 0];
    let worst = [0, 0];
    mine.data.forEach((a, i) => {
      const b = Number(truth.data[i]);
      const off = Object.is(a, b) || a === b ? 0 : Math.abs(a - b);
      const far = Number.isNaN(off) ? Infinity : off;
      if (far > worst[0]) worst = [far, i];
    });
    return worst;
  }

  const agree = (mine, other, within) => misfit(mine, other) === null && gap(mine, other)[0] <= within;

  /** Say how the answer differs from the truth, without telling it. */
  function difference(mine, { truth, slips, within }) {
    const reason = misfit(mine, truth);
    if (reason) return reason;
    if (typeof mine === "string") {
      const words = [...new Set([truth, ...slips.map(([, word]) => word)])].sort();
      return `${quoted([...mine].slice(0, 40).join(""))} is not it${words.length > 1 ? `; choose from ${words.map(quoted).join(", ")}` : ""}`;
    }
    const digits = mine.bool ? 0 : digitsAsked(mine.data, truth.data.map(Number), within);
    if (digits) return `nearly; ${counted(digits)} digits, please`;
    const [distance, index] = gap(mine, truth);
    const place = truth.shape.map((n, axis) => Math.floor(index / truth.shape.slice(axis + 1).reduce((a, b) => a * b, 1)) % n);
    const at = placeIn(place, truth.shape);
    const [a, b] = [mine.data[index], Number(truth.data[index])];
    if (Number.isNaN(a) || Number.isNaN(b)) return `${Number.isNaN(a) ? "NaN" : "a number"}${at}, where it should not be`;
    if (truth.bool) return `${a ? "True" : "False"}${at} is wrong`;
    if (place.length && Number.isFinite(distance)) return `off by about ${general(distance, 1)}${at}`;
    if (Math.sign(a) * Math.sign(b) < 0 && !place.length) return `the answer is ${b > 0 ? "positive" : "negative"}`;
    return `${a > b ? "too large" : "too small"}${at}`;
  }

  /** The same array, and null for a ragged list as well. */
  function numbersOf(value) {
    try {
      return toArray(value);
    } catch {
      return null;
    }
  }

  const has = (shape, array) => tuple(shape) === tuple(array.shape);
  const no = (message) => ({ right: false, message });

  /** Judge a value as `Exercise.verdict`, or with `why`, a predicate, as `Search.verdict`; undefined is no answer. */
  function verdict(asked, value, why) {
    if (value === undefined) return no(`not answered yet: ${asked.ask}`);
    if (why) {
      const array = numbersOf(value), { shape } = asked;
      const many = shape?.length ? `${counted(shape[0])} numbers` : "one number";
      const misses = array && shape && !has(shape, array) && `${many}, please; you gave ${form(array.shape)}`;
      const hint = misses || (array ? why(array, asked.given) : asked.ask);
      return hint === null ? { right: true, message: "right" } : no(`not yet: ${hint}`);
    }
    let mine;
    try {
      mine = read(value);
    } catch (error) {
      return no(error.message);
    }
    if (mine.data && asked.truth.bool && mine.data.every((v) => v === 0 || v === 1)) mine.bool = true;
    if (agree(mine, asked.truth, asked.within)) return { right: true, message: "right" };
    const slip = asked.slips.find(([, wrong]) => agree(mine, wrong, asked.within));
    return no(`not yet: ${slip ? slip[0] : difference(mine, asked)}`);
  }

  /** What was typed with points for decimal commas, which stand in no list of three: 1,11e-5. */
  const pointed = (text) => text.replace(/(?<![\d,.])(\d+),(\d+)(?![\d,.])/g, "$1.$2");

  /** Judge what was typed. A word needs no quotes; what cannot be read gets what was asked. */
  function judge(asked, text, why) {
    if (["", "..."].includes(text.trim())) return verdict(asked, undefined);
    if (typeof asked.truth === "string") return verdict(asked, text.trim().replace(/^(["'])(.*)\1$/, "$2"));
    const fits = (typed) => has(asked.truth?.shape ?? asked.shape ?? [NaN], numbersOf(parse(typed)) ?? { shape: [NaN] });
    try {
      if (!fits(text) && fits(pointed(text))) return no("not yet: a point, not a comma, please");
      return verdict(asked, parse(text), why);
    } catch {
      return no(`not yet: ${asked.ask}`);
    }
  }

  return { fixed, general, judge, parse, verdict };
})();
if (typeof module !== "undefined") module.exports = lnAnswers;
