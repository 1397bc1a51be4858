import type { VerifyResult } from "waymark";
import type { CommandFile, Session } from "../cli.js";
import { ExitCode } from "../exit-code.js";
import { countAll, printFindings } from "../findings.js";
import { jsonText, printable } from "../printable.js";
import { showProgressOnceBegun } from "../progress.js";
import { bytesText, counted } from "../words.js";

export const verify: CommandFile = {
  example: "waymark verify --quick",
  register(program, cli) {
    program
      .command("verify")
      .summary("is everything whole?")
      .description(
        "Reads every record and file, and tells what is damaged, what killed writes left behind, and what SQLite's own " +
          "check says. Changes nothing. Ends with 1 where it found anything; waymark repair moves it out of the way.",
      )
      .option("--quick", "leave payloads unread")
      .option("--json", "for programs: the counts and the findings")
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, name } = session;
          const result = await run(session, options.quick === true);
          const { findings, tasks, checkpoints, bytes } = result;
          if (options.json) await output.line(jsonText(result));
          else {
            await printFindings(session, findings);
            const looked = `${counted(checkpoints, "checkpoint")} of ${counted(tasks, "task")} (${bytesText(bytes)}) in ${name}`;
            const verdict = findings.length === 0 ? "nothing is wrong" : counted(findings.length, "finding");
            await output.line(output.colors.bold(printable(`${looked}: ${verdict}.`)));
            if (findings.length > 0) await output.line('"waymark repair --dry-run" shows what a repair would do.');
          }
          if (findings.length > 0) cli.exitCode = ExitCode.failed;
        }),
      );
  },
};

async function run({ manager, storage }: Session, quick: boolean): Promise<VerifyResult> {
  // Not before verify has looked at SQLite's log: where that is damaged, opening the database would cost it.
  const progress = showProgressOnceBegun("verifying", () => countAll(storage));
  try {
    return await manager.verify({ quick, onProgress: ({ checkpoints }) => progress.reach(checkpoints) });
  } finally {
    progress.stop();
  }
}
