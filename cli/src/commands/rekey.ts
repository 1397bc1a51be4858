import type { RekeyResult } from "waymark";
import type { CommandFile, Session } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonText, printable } from "../printable.js";
import { showProgress } from "../progress.js";
import { countRecords } from "../records/whole-records.js";
import { counted } from "../words.js";

export const rekey: CommandFile = {
  example: "waymark rekey",
  isSetUp: true,
  register(program, cli) {
    program
      .command("rekey")
      .summary("under the current key")
      .description(
        "Rewrites checkpoints that the configured transforms would store in another way today: those under an old key, " +
          "or unencrypted ones. Programs may go on saving. After Ctrl-C or a kill, run it again: it continues from there.",
      )
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--json", "for programs: the counts, and what no key opens")
      .action(async (options) => {
        const signal = cli.interruptible();
        await cli.withStore(async (session) => {
          const result = await run(session, options.prefix, signal);
          if (options.json) await session.output.line(jsonText({ ...result, refusals: result.refusals.map(plain) }));
          else await report(session, result);
          if (result.refused > 0 && !signal.aborted) throw refused(result);
        });
      });
  },
};

const SHOWN = 5;
const PLAIN_LINE_EVERY_MS = 10_000;

async function run(session: Session, prefix: string | undefined, signal: AbortSignal): Promise<RekeyResult> {
  const { storage, config, errors } = session;
  const { transforms = [] } = await config();
  if (transforms.length === 0) {
    throw new CommandError(
      ExitCode.usage,
      "No transforms are configured, so there is no key. Set transforms: [encrypt({ keys, current })] in waymark.config.js.",
    );
  }
  const manager = await session.configured();
  const bar = await showProgress("rekeying", () => countRecords(storage, prefix));
  let saidMs = performance.now();
  const onProgress = ({ done, total, left }: Omit<RekeyResult, "refusals">): void => {
    bar.reach(done);
    if (errors.isTerminal || performance.now() - saidMs < PLAIN_LINE_EVERY_MS) return;
    saidMs = performance.now();
    void errors.line(`rekeying: ${done} of ${total}, ${left} left`);
  };
  try {
    return await manager.rekey({ prefix, signal, onProgress });
  } finally {
    bar.stop();
  }
}

async function report({ output, damage }: Session, result: RekeyResult): Promise<void> {
  const { rewritten, current, left, refused, refusals } = result;
  for (const { error } of refusals.slice(0, SHOWN)) await damage.warn(error.message);
  if (refused > SHOWN) await damage.warn(`${refused - SHOWN} more stay as they are`);
  await output.line(printable(`Rekeyed ${counted(rewritten, "checkpoint")}; ${current} had the current key already.`));
  if (left > 0) await output.line(`Stopped: ${counted(left, "checkpoint")} left. Run it again to continue.`);
}

function plain({ taskId, id, sequence, error }: RekeyResult["refusals"][number]): object {
  return { taskId, id, sequence, code: error.code, message: error.message };
}

function refused({ refused: count }: RekeyResult): CommandError {
  return new CommandError(
    ExitCode.failed,
    `${counted(count, "checkpoint")} were not rewritten, for the reasons above. Keep the old keys. If a key is missing, add it to ` +
      "`keys`. If records are damaged, run waymark repair. Then run this again.",
  );
}
