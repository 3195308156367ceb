// What a page says of an answer against what Python says, letter for letter: tests/book/test_answers.py runs this file.
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
  assert.deepEqual(Object.keys(searches).sort(), golden.exercises.map(({ asked }) => asked.search).filter(Boolean).sort());
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
    "1, 2": [1, 2], "1 2 1e3": [1, 2, 1000], "1; 2": [1, 2], "[1 2]": [1, 2], "1 - 2": -1, "1 -2": [1, -2], "-1.34 −0.45 0.45 1.34": [-1.34, -0.45, 0.45, 1.34], "1 3 5 7": [1, 3, 5, 7], "1.11·10⁻⁵": 1.11 * 10 ** -5, "1.11×10^-5": 1.11 * 10 ** -5, "ε = 1.11e−5": 1.11e-5, "answer = [1, 2]": [1, 2], "[1, 2]": [1, 2], "(1, 2)": [1, 2], "1,2,": [1, 2], "[1,]": [1], "(1,)": [1], "1,": [1], "[]": [], "[[1, 2], [3, 4]]": [[1, 2], [3, 4]], "[1, 2], [3, 4]": [[1, 2], [3, 4]], "yes, no": [true, false], "[1/2, -1]": [0.5, -1],
  };
  for (const [text, value] of Object.entries(read)) assert.deepEqual(answers.parse(text), value, text);
});

test("what cannot be read gets what was asked, and a decimal comma is told where a point would give what is asked for", () => {
  const says = (text, ...shape) => answers.judge({ ask: "answer with a number", truth: { shape, data: [0.25, 0.5], bool: false }, slips: [], within: 0 }, text).message;
  for (const text of ["1,,2", "[1", "1]", "((", "two words", "1/0", "true+1", "a*2", "=5", "2**", "[1] + 2", "float(x)", "<b>", "-true", ",", "a = b = 1"]) assert.equal(says(text), "not yet: answer with a number", text);
  for (const told of [says("1,11e-5"), says("0,25 0,5", 2), says("[0,25; 0,5]", 2)]) assert.equal(told, "not yet: a point, not a comma, please");
  assert.deepEqual([says("0.25,0.5", 2), says("1,2,3"), says("1,2,3", 2)], ["right", "not yet: 3 numbers instead of one number", "not yet: 3 numbers instead of 2 numbers"]);
});
