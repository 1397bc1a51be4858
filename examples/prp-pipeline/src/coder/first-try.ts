import type { Edit } from "./edits.js";

/**
 * The code that the stand-in writes for the PRP. It contains a common mistake: `end - start` is wrong for entries over
 * midnight. The PRP mentions them, but the compiler can't find this mistake.
 */
export const FIRST_TRY: readonly Edit[] = [
  {
    path: "src/report.ts",
    content: `import { clock, type Entry } from "./log.js";

/** The columns that a report can add up by. */
export const COLUMNS = ["project", "day"] as const;
export type Column = (typeof COLUMNS)[number];

/** How long an entry took. */
export function minutesOf({ start, end }: Entry): number {
  return end - start;
}

/** One line for each project or day, in order, and one for the total. */
export function report(entries: readonly Entry[], by: Column): string {
  const sums = new Map<string, number>();
  let total = 0;
  for (const entry of entries) {
    const minutes = minutesOf(entry);
    sums.set(entry[by], (sums.get(entry[by]) ?? 0) + minutes);
    total += minutes;
  }
  const sorted = [...sums].sort(([a], [b]) => (a < b ? -1 : 1));
  const rows = [...sorted, ["total", total] as const].map(([name, minutes]) => ({ name, time: clock(minutes) }));
  const nameWidth = Math.max(...rows.map(({ name }) => name.length));
  const timeWidth = Math.max(5, ...rows.map(({ time }) => time.length));
  return rows.map(({ name, time }) => name.padEnd(nameWidth) + "  " + time.padStart(timeWidth) + "\\n").join("");
}
`,
  },
  {
    path: "src/main.ts",
    find: 'from "./log.js";\n',
    replaceBy: 'from "./log.js";\nimport { COLUMNS, type Column, report } from "./report.js";\n',
  },
  {
    path: "src/main.ts",
    find: "every entry, one per line\n",
    replaceBy: `every entry, one per line
  report <log>    the hours of each project and in total; of each day with --by day\n`,
  },
  {
    path: "src/main.ts",
    find: "    default:\n",
    replaceBy: `    case "report": {
      const by = column(rest);
      if (by === undefined) return misuse("report takes --by " + COLUMNS.join(" or --by "));
      return withLog(path, (entries) => print(report(entries, by)));
    }
    default:\n`,
  },
  {
    path: "src/main.ts",
    find: "function listed(",
    replaceBy: `function column(options: readonly string[]): Column | undefined {
  const [flag, value, ...more] = options;
  if (flag === undefined) return "project";
  return flag === "--by" && more.length === 0 ? COLUMNS.find((name) => name === value) : undefined;
}

function listed(`,
  },
];
