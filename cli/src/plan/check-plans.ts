import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import {
  findPlans,
  findScript,
  gatesFor,
  type Plan,
  type PlanItem,
  RunnerError,
  readPlan,
  readScripts,
  scriptGates,
} from "waymark-runners/plans";
import type { Cli } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonText, printable } from "../printable.js";
import { printTable } from "../table.js";
import { counted } from "../words.js";

/** The options that say what would run. */
export interface PlanChoice {
  readonly gate?: readonly string[] | undefined;
  readonly gates?: "auto" | "none" | undefined;
  readonly item?: readonly string[] | undefined;
  readonly tag?: string | undefined;
}

/** Returns the gates for all items: those of the flags, then those of package.json or the configuration. */
export async function commonGates(cli: Cli, { gate = [], gates }: PlanChoice): Promise<readonly string[]> {
  const configured = gate.length > 0 || gates !== undefined ? [] : ((await cli.config()).gates ?? []);
  const scripts = gates === "auto" ? scriptGates(await readScripts(".")) : [];
  if (gates === "auto" && scripts.length === 0) {
    throw new CommandError(
      ExitCode.usage,
      "--gates auto finds no gate: package.json in the current folder has no script named typecheck, lint or test. Name one: --gate CMD.",
    );
  }
  return [...new Set([...gate, ...scripts, ...configured])];
}

/** Prints a table for each plan, with the items that would run. */
export async function checkPlans(
  cli: Cli,
  paths: readonly string[],
  options: PlanChoice & { readonly json?: boolean | undefined },
): Promise<void> {
  const common = await commonGates(cli, options);
  const scripts = await readScripts(".");
  const checked: object[] = [];
  for (const path of await filesIn(paths)) {
    try {
      const plan = await readPlan(path, { tag: options.tag });
      const rows = plan.items.map((item) => ({
        item,
        gates: gatesFor(item, common, scripts),
        isRun: isRun(item, options.item),
      }));
      checked.push({
        path: resolve(path),
        format: plan.format,
        items: rows.map(({ item, ...row }) => ({ ...withoutMarks(item), ...row })),
      });
      if (!options.json) await print(cli, path, plan, rows, options);
      const bare = rows.some(({ item, gates, isRun }) => isRun && !item.isGroup && gates.length === 0);
      if (bare && options.gates !== "none") cli.exitCode = ExitCode.failed;
    } catch (error) {
      if (!(error instanceof RunnerError)) throw error;
      cli.exitCode = ExitCode.failed;
      checked.push({ path: resolve(path), items: [], problem: error.message, code: error.code });
      if (!options.json) await cli.output.line(printable(error.message));
    }
    if (!options.json) await cli.output.line();
  }
  if (options.json) await cli.output.line(jsonText({ gates: common, plans: checked }));
  else if (options.gates === "auto") await cli.output.line(printable(`Gates of package.json: ${common.join(", ")}`));
}

interface Row {
  readonly item: PlanItem;
  readonly gates: readonly string[];
  readonly isRun: boolean;
}

async function print(
  cli: Cli,
  path: string,
  plan: Plan,
  rows: readonly Row[],
  { gates: which }: PlanChoice,
): Promise<void> {
  const { output } = cli;
  const running = rows.filter(({ isRun }) => isRun);
  const done = rows.filter(({ item }) => item.status === "done").length;
  await output.line(
    printable(`${path}: ${plan.format}, ${counted(rows.length, "item")}, ${done} done, ${running.length} to run`),
  );
  await printTable(output, rows, [
    { head: "ITEM", cell: ({ item }) => item.id },
    { head: "STATUS", cell: ({ item }) => statusText(item) },
    { head: "TITLE", flexible: true, cell: ({ item }) => titleText(item) },
    { head: "AFTER", flexible: true, cell: ({ item }) => item.after.join(" ") },
    { head: "GATES", flexible: true, cell: (row) => (row.isRun ? row.gates.join("; ") : "") },
  ]);
  const bare = running.filter(({ item, gates }) => !item.isGroup && gates.length === 0).map(({ item }) => item.id);
  if (bare.length > 0 && which !== "none") {
    await output.line(
      printable(
        `Without a gate: ${bare.join(", ")}. Name one (--gate "npm test", --gates auto), or pass --gates none.`,
      ),
    );
  }
  const scripts = await readScripts(".");
  const checks = new Set(
    running.flatMap(({ item }) => item.checks).filter((check) => findScript(check, scripts) === undefined),
  );
  if (checks.size > 0)
    await output.line(printable(`No script of package.json does what these items ask for: ${[...checks].join(", ")}.`));
}

function isRun({ id, status, isOptional }: PlanItem, only: readonly string[] | undefined): boolean {
  if (only !== undefined) return only.includes(id) && status !== "done";
  return (status === "open" || status === "begun") && !isOptional;
}

function statusText({ status, isOptional }: PlanItem): string {
  return isOptional && status !== "done" ? "optional" : status;
}

function titleText({ title, beside, isGroup, marks }: PlanItem): string {
  const parts = marks.length > 1 ? [counted(marks.length - 1, "part")] : [];
  const notes = [...(beside ? ["parallel"] : []), ...(isGroup ? ["done with its items"] : []), ...parts];
  return notes.length === 0 ? title : `${title} (${notes.join(", ")})`;
}

function withoutMarks({ marks: _marks, ...item }: PlanItem): object {
  return item;
}

/** Returns the plans that the paths name: files, and all plans in a folder and below. */
async function filesIn(paths: readonly string[]): Promise<readonly string[]> {
  const files: string[] = [];
  for (const path of paths) {
    const isFolder = await stat(path).then(
      (found) => found.isDirectory(),
      () => false,
    );
    if (!isFolder) files.push(path);
    else for await (const file of findPlans(path)) files.push(file);
  }
  if (files.length === 0)
    throw new CommandError(ExitCode.notFound, `There is no plan in ${paths.map((path) => resolve(path)).join(", ")}.`);
  return files;
}
