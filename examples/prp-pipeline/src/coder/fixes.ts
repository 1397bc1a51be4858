import type { Edit } from "./edits.js";

export interface Fix {
  /** The stand-in's explanation of the failure. */
  readonly message: string;
  readonly edits: readonly Edit[];
}

const MINUTES_OF_A_DAY = 24 * 60;

/** Matches the actual and the expected number of a failed test, as Node's assertions print them. */
const WRONG_NUMBER = /actual: (-?\d+),\s+expected: (-?\d+)/g;

const OVER_MIDNIGHT: readonly Edit[] = [
  {
    path: "src/report.ts",
    find: "  return end - start;\n",
    replaceBy: `  // What doesn't end after its start goes on into the next day.
  return end > start ? end - start : end - start + MINUTES_OF_A_DAY;\n`,
  },
  {
    path: "src/report.ts",
    find: "/** How long an entry took. */\n",
    replaceBy: "const MINUTES_OF_A_DAY = 24 * 60;\n\n/** How long an entry took. */\n",
  },
];

/** Returns the fix for the failure in the prompt, or `undefined` if the stand-in doesn't understand the failure. */
export function findFix(prompt: string): Fix | undefined {
  const wrong = [...prompt.matchAll(WRONG_NUMBER)].map(([, actual, expected]) => ({
    actual: Number(actual),
    expected: Number(expected),
  }));
  const [first] = wrong;
  if (first === undefined) return undefined;
  if (wrong.some(({ actual, expected }) => expected - actual !== MINUTES_OF_A_DAY)) return undefined;
  return {
    message: `${first.actual} instead of ${first.expected} is a day short: the entry goes on over midnight`,
    edits: OVER_MIDNIGHT,
  };
}
