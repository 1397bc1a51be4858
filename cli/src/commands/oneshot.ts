import { Option } from "@commander-js/extra-typings";
import type { OneshotResult } from "waymark/oneshot";
import type { CommandFile } from "../cli.js";
import { whyPlain } from "../config-file.js";
import { ExitCode } from "../exit-code.js";
import { namingFlags } from "../flags.js";
import { PlainLines } from "../oneshot/plain-lines.js";
import { printable } from "../printable.js";
import { countArgument, counted, durationArgument } from "../words.js";

export const oneshot: CommandFile = {
  example: "waymark oneshot F01 --jobs 4 --resume",
  register(program, cli) {
    program
      .command("oneshot")
      .summary("run a feature's plan")
      .description(
        "Runs a feature's workstreams in the plan's order, each after those that it depends on. The checkpoint is " +
          ".sdp/checkpoints/<feature>.json: after Ctrl-C, a failure or a kill, --resume runs what is not completed. " +
          "Success removes that file. It does not use --storage.",
      )
      .argument("<feature>")
      .option("--plan <file>", "YAML or JSON; default: .sdp/plans/<feature>.yaml, .yml or .json")
      .addOption(new Option("--resume", "continue from the feature's checkpoint").conflicts("restart"))
      .option("--restart", "start over, whatever the checkpoint says")
      .option("--jobs <n>", "run n at a time; default: 1", countArgument(1))
      .option("--max-age <time>", "refuse an older checkpoint; default: 7d", durationArgument)
      .option("--force", "resume from an older one, too")
      .action(async (feature, options) => {
        const { runOneshot } = await import("waymark/oneshot");
        const plain = await whyPlain("waymark oneshot");
        if (plain !== undefined) await cli.warn(plain);
        const view = cli.output.isTerminal
          ? new (await import("../oneshot/live-list.js")).LiveList(cli.output.colors)
          : new PlainLines(cli.output);
        // Warnings come before the run begins, so they don't break its list.
        const warn = (_details: object, message: string) => void cli.warn(message);
        let result: OneshotResult;
        try {
          result = await namingFlags(FLAGS, () =>
            runOneshot(feature, {
              plan: options.plan,
              resume: options.resume,
              restart: options.restart,
              jobs: options.jobs,
              maxAgeMs: options.maxAge,
              force: options.force,
              onEvent: (event) => view.show(event),
              logger: { debug() {}, info() {}, warn, error: warn },
            }),
          );
        } finally {
          await view.end();
        }
        await report(result);
      });

    async function report({ success, completed, failed, notStarted }: OneshotResult): Promise<void> {
      const line = (text: string) => cli.output.line(printable(text));
      const all = completed.length + failed.length + notStarted.length;
      const done = `Completed: ${completed.length} of ${counted(all, "workstream")}`;
      if (success) return line(`${done}.`);
      for (const { workstream, reason, outputTail } of failed) {
        await line(`${workstream} ${reason}${outputTail.length === 0 ? "." : "; its last lines:"}`);
        for (const text of outputTail) await line(`  ${text}`);
      }
      const rest = notStarted.length === 0 ? "" : ` Not started: ${notStarted.length}.`;
      await line(`${done}; failed: ${failed.length}.${rest} Fix it, then continue with --resume.`);
      cli.exitCode = ExitCode.failed;
    }
  },
};

const FLAGS = {
  CHECKPOINT_CONFLICT: "--resume goes on from it, --restart begins anew",
  CHECKPOINT_CORRUPT: "--restart sets it aside and begins anew",
  CHECKPOINT_NOT_FOUND: "it is started without --resume",
  CHECKPOINT_STALE: "--force uses it, --max-age accepts more, --restart begins anew",
  PLAN_UNREADABLE: "--plan names it",
};
