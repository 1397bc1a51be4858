import type { RekeyResult } from "waymark";
import type { CommandFile, Session } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonText, printable } from "../printable.js";
import { showProgress } from "../progress.js";
import { countRecords } from "../records/whole-records.js";
import { counted } from "../words.js";

export const rekey: CommandFile = {
  example: "waymark rekey",
  group: "set up",
  register(program, cli) {
    program
      .command("rekey")
      .summary("move to the current key")
      .description(
        "Rewrites checkpoints that aren't stored as the configured transforms store them now: those under an old key, " +
          "or unencrypted ones. Programs may keep saving. After Ctrl-C or a kill, run it again: it continues from there.",
      )
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--json", "for programs: the counts, and what no key opens")
      .action(async ({ prefix, json }) => {
        const signal = cli.interruptible();
        await cli.withStore(async (session) => {
          const { transforms = [] } = await session.config();
          if (transforms.length === 0) throw new CommandError(ExitCode.usage, NO_KEY);
          const manager = await session.configured();
          const bar = await showProgress("rekeying", () => countRecords(session.storage, prefix));
          const onProgress = ({ done }: { readonly done: number }) => bar.reach(done);
          const result = await manager.maintenance.rekey({ prefix, signal, onProgress }).finally(() => bar.stop());
          if (json) await session.output.line(jsonText({ ...result, refusals: result.refusals.map(plain) }));
          else await report(session, result);
          const { refused } = result;
          if (refused === 0 || signal.aborted) return;
          throw new CommandError(
            ExitCode.failed,
            `${counted(refused, "payload")} were not rewritten, ${NOT_REWRITTEN}`,
          );
        });
      });
  },
};

const SHOWN = 5;
const NO_KEY =
  "No transforms are configured, so there is no key. Set transforms: [encrypt({ keys, current })] in waymark.config.js.";
const NOT_REWRITTEN =
  "for the reasons above. Keep the old keys. If a key is missing, add it to `keys`. If records are damaged, run waymark " +
  "repair. Then run this again.";

async function report({ output, damage }: Session, result: RekeyResult): Promise<void> {
  const { rewritten, current, left, refused, refusals } = result;
  for (const { error } of refusals.slice(0, SHOWN)) await damage.warn(error.message);
  if (refused > SHOWN) await damage.warn(`${refused - SHOWN} more left unchanged`);
  await output.line(printable(`Rekeyed ${counted(rewritten, "payload")}; ${current} had the current key already.`));
  if (left > 0) await output.line(`Stopped: ${counted(left, "payload")} left. Run it again to continue.`);
}

function plain({ taskId, id, sequence, error }: RekeyResult["refusals"][number]): object {
  return { taskId, id, sequence, code: error.code, message: error.message };
}
