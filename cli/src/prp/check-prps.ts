import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { checkPrp, type GateCheck, RunnerError } from "waymark-runners/prp";
import type { Cli } from "../cli.js";
import type { JsonEvents } from "../event-lines.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { JsonArrayPrinter } from "../items.js";
import { jsonText } from "../printable.js";
import { briefText, type CheckedPrp, counting, detailedText, NO_PRPS, totalsText, warningsIn } from "./check-text.js";
import { prpsBelow } from "./find-prps.js";

/** The options for reading a PRP. */
export interface ReadingOptions {
  readonly section?: string | undefined;
  readonly skip?: readonly string[] | undefined;
  readonly only?: readonly string[] | undefined;
}

const WIDTH = 80;

/** Prints what each PRP would run. A PRP named by its file is shown in full, the PRPs of a folder in a line each. */
export async function checkPrps(
  cli: Cli,
  paths: readonly string[],
  { json = false, ...reading }: ReadingOptions & { readonly json?: boolean | undefined },
): Promise<void> {
  const { output } = cli;
  const width = Math.min(output.columns, WIDTH);
  const array = new JsonArrayPrinter(output, '{"prps":[');
  // Keeps only totals: a folder may have thousands of PRPs.
  let totals = NO_PRPS;
  const show = async (prp: CheckedPrp, textOf: typeof briefText): Promise<void> => {
    totals = counting(totals, prp);
    if (json) return array.add(toJson(prp));
    for (const line of textOf(prp, width)) await output.line(line);
  };
  let hasFolder = false;
  for (const path of paths) {
    if (!(await isFolder(path))) {
      if (!json && totals.prps > 0) await output.line();
      await show(await checkedPrp(path, reading), detailedText);
      continue;
    }
    hasFolder = true;
    for await (const found of prpsBelow(path)) {
      const prp = await checkedPrp(found.path, reading);
      const runs = prp.check?.gates.some(({ skipped }) => skipped === undefined);
      if (found.isCertain || runs) await show(prp, briefText);
    }
  }
  const { prps, ...numbers } = totals;
  if (prps === 0) {
    throw new CommandError(ExitCode.notFound, `No PRP is in ${paths.map((path) => resolve(path)).join(", ")}.`);
  }
  if (json) await array.end(`],${jsonText(numbers).slice(1)}`);
  else if (hasFolder || prps > 1) for (const line of ["", ...totalsText(totals, width)]) await output.line(line);
  if (totals.refused > 0) cli.exitCode = ExitCode.failed;
}

/**
 * Shows the warnings about a PRP before it is run: on standard error, or as events. If the PRP can't be run, nothing is
 * shown, because running it says why.
 *
 * @throws {RunnerError} The PRP can't be read.
 */
export async function warnOfPrp(
  cli: Cli,
  view: JsonEvents | undefined,
  path: string,
  options: ReadingOptions & { readonly taskId: string | undefined; readonly sessionPath: string },
): Promise<void> {
  const { taskId, gates, problems } = await checkPrp(path, options);
  if (problems.length > 0) return;
  for (const gate of gates) {
    for (const { level, line, text } of [...skipIn(gate), ...warningsIn(gate)]) {
      if (view !== undefined) view.show({ type: "warning", taskId, level, line, text });
      else await cli.warn(`Level ${level}${line === undefined ? ` (${gate.description})` : `, line ${line}`}: ${text}`);
    }
  }
}

function skipIn({ level, line, skipped }: GateCheck) {
  return skipped === undefined ? [] : [{ level, line, text: `it is skipped: ${skipped}` }];
}

async function checkedPrp(path: string, { section, skip, only }: ReadingOptions): Promise<CheckedPrp> {
  try {
    const check = await checkPrp(path, { section, skip, only });
    return { path, check, problems: check.problems };
  } catch (error) {
    if (!(error instanceof RunnerError)) throw error;
    return { path, problems: [error.message.replaceAll(resolve(path), path)], code: error.code };
  }
}

function toJson({ path, check, problems, code }: CheckedPrp): object {
  return check ?? { path: resolve(path), gates: [], problems, code };
}

/** Also returns false for a missing path, which is reported when it is read. */
async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
