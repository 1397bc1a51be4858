import { readFile } from "node:fs/promises";

/** Reads the queries of dashboard.json. */
export async function dashboardQueries(): Promise<string[]> {
  const text = await readFile(new URL("../dashboard.json", import.meta.url), "utf8");
  const dashboard = JSON.parse(text) as { panels: { targets?: { expr: string }[] }[] };
  return dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

/**
 * Matches metrics and labels. Over OTLP, a metric's name ends with its unit, so some names are patterns for both forms.
 */
const NAMES = /\b(?:waymark|error)_[\w()?]*[\w?]/g;

/** Returns the names in the queries that are neither metrics nor labels in the text that Prometheus reads. */
export function unknownNames(queries: readonly string[], metrics: string): string[] {
  const samples = metrics.split("\n").filter((line) => !line.startsWith("#"));
  const known = new Set(samples.flatMap((line) => [/^\w+/.exec(line)?.[0], ...labelsOf(line)]));
  const asked = new Set(queries.flatMap((query) => query.match(NAMES) ?? []));
  return [...asked].filter((name) => ![...known].some((one) => new RegExp(`^${name}$`).test(one ?? "")));
}

function labelsOf(line: string): string[] {
  return [...line.matchAll(/(\w+)="/g)].map(([, label = ""]) => label);
}
