import type { CommandFile } from "../cli.js";
import { ExitCode } from "../exit-code.js";
import { printFindings } from "../findings.js";
import { jsonText, printable } from "../printable.js";
import { showProgress } from "../progress.js";
import { verifyStorage } from "../queries/verify.js";
import { countRecords } from "../records/whole-records.js";
import { bytesText, checkpointsText, counted } from "../words.js";

export const verify: CommandFile = {
  example: "waymark verify --quick",
  register(program, cli) {
    program
      .command("verify")
      .summary("find damage")
      .description(
        "Checks every record and file. Finds what is damaged, what killed writes left behind, and what SQLite's own check " +
          "reports. Changes nothing. Exits with 1 if it finds anything; waymark repair moves it away.",
      )
      .option("--quick", "skip payloads")
      .option("--json", "for programs: the counts and the findings")
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, name } = session;
          const progress = await showProgress("verifying", () => countRecords(session.storage));
          const result = await verifyStorage(session, {
            quick: options.quick === true,
            onProgress: ({ checkpoints, records }) => progress.reach(checkpoints + records),
          }).finally(() => progress.stop());
          const { findings, tasks, checkpoints, records, bytes } = result;
          if (options.json) await output.line(jsonText(result));
          else {
            await printFindings(session, findings);
            const checked = `${checkpointsText(checkpoints, records)} of ${counted(tasks, "task")} (${bytesText(bytes)}) in ${name}`;
            const verdict = findings.length === 0 ? "nothing is wrong" : counted(findings.length, "finding");
            await output.line(output.colors.bold(printable(`${checked}: ${verdict}.`)));
            if (findings.length > 0) await output.line('"waymark repair --dry-run" shows what a repair would do.');
          }
          if (findings.length > 0) cli.exitCode = ExitCode.failed;
        }),
      );
  },
};
