// What a page says of an answer against what Python says, letter for letter: tests/test_answers.py runs this file.
import answers from "../../book/assets/answers.js";
import searches from "../../book/assets/searches.js";
import { assert, golden, test } from "./golden.mjs";

for (const { name, asked, cases } of golden.exercises) {
  test(`${name}: the verdicts are Python's`, () => {
    for (const { typed, right, message } of cases) {
      assert.deepEqual(answers.judge(asked, typed, searches[asked.search]), { right, message }, `${name}(${typed})`);
    }
  });
}

test("each search has its predicate, and each predicate its search", () => {
  const names = golden.exercises.map(({ asked }) => asked.search).filter(Boolean);
  assert.deepEqual(Object.keys(searches).sort(), names.sort());
});

test("numbers are written as Python writes them", () => {
  for (const [written, g, f] of golden.numbers) {
    const x = Number(written);
    g.forEach((text, i) => assert.equal(answers.general(x, i + 1), text, `${written}, ${i + 1} digits`));
    f.forEach((text, i) => assert.equal(answers.fixed(x, i), text, `${written}, ${i} places`));
  }
});

test("what is typed is read", () => {
  const read = {
    "1.11e-5": 1.11e-5, "1/9": 1 / 9, ".5": 0.5, "5.": 5, "−3": -3, "+3": 3, "2^-24": 2 ** -24, "-2**2": -4, "2**3**2": 512, "1-2-3": -4, "12/3/2": 2,
    "-3/sqrt(5)": -3 / Math.sqrt(5), "√7": Math.sqrt(7), "(1+2)*3": 9, "math.sqrt(4)": 2, "∞": Infinity, "-inf": -Infinity, 'float("-inf")': -Infinity, "float('inf')": Infinity, "math.inf": Infinity,
    yes: true, No: false, TRUE: true, x_hat: "x_hat", '"two words"': "two words",
    "1, 2": [1, 2], "1 2 1e3": [1, 2, 1000], "1; 2": [1, 2], "[1 2]": [1, 2], "1 -2": -1, "[1, 2]": [1, 2], "(1, 2)": [1, 2], "1,2,": [1, 2], "[1,]": [1], "(1,)": [1], "1,": [1], "[]": [], "[[1, 2], [3, 4]]": [[1, 2], [3, 4]], "[1, 2], [3, 4]": [[1, 2], [3, 4]], "yes, no": [true, false], "[1/2, -1]": [0.5, -1],
  };
  for (const [text, value] of Object.entries(read)) assert.deepEqual(answers.parse(text), value, text);
});

test("what cannot be read gets what was asked", () => {
  for (const text of ["1,,2", "[1", "1]", "((", "two words", "1/0", "true+1", "a*2", "=5", "2**", "[1] + 2", "float(x)", "<b>", "-true", ","]) {
    assert.deepEqual(answers.judge({ ask: "answer with a number", truth: { shape: [], data: [1], bool: false }, slips: [], within: 0 }, text), { right: false, message: "not yet: answer with a number" }, text);
  }
});
