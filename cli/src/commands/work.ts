import { Option } from "@commander-js/extra-typings";
import { CheckpointManager } from "waymark";
import type { CommandFile, Session } from "../cli.js";
import { EventLines } from "../event-lines.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { countArgument } from "../measure-arguments.js";
import { jsonText, printable } from "../printable.js";

export const work: CommandFile = {
  example: "waymark work --module ./worker.js --prefix mail/",
  group: "workers",
  register(program, cli) {
    program
      .command("work")
      .summary("run tasks that are due")
      .description(
        "Runs the tasks that are due: enqueued ones, those whose wait is over, those whose worker has died. The module's " +
          "default export is the function that gets the run, or { prefix, concurrency, maxAttempts, run }. Start it on " +
          "as many machines as you like. Ctrl-C or SIGTERM pauses its runs. Other workers continue them.",
      )
      .addHelpText("after", SHAPE)
      .option("--module <file>", "JavaScript, or TypeScript from Node 22.18 on; required")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--concurrency <n>", "run n tasks at a time; default: 1", countArgument(1))
      .option("--max-attempts <n>", "fail a task that has killed n workers; default: 5", countArgument(1))
      .option("--quiet", "print only what fails")
      .addOption(new Option("--ndjson", "for programs: each event as a line of JSON").conflicts("quiet"))
      .action(({ module: file, quiet, ndjson, ...flags }, command) => {
        // If commander required --module, it would report a missing --module before a misspelt option.
        if (file === undefined) return command.error("error: required option '--module <file>' not specified");
        return cli.withStore(async (session) => {
          const { loadWorker } = await import("../work/worker-module.js");
          const { failureLine, WorkEvents, workLine } = await import("../work/work-events.js");
          const { run, ...own } = await loadWorker(file);
          const { prefix = own.prefix ?? "", concurrency = own.concurrency, maxAttempts = own.maxAttempts } = flags;
          const options = { ...own, prefix, concurrency, maxAttempts };
          if (prefix === "") {
            throw new CommandError(
              ExitCode.usage,
              `No tasks are named. Give --prefix mail/, or export default { prefix: "mail/", run(run) { … } } from ${file}.`,
            );
          }
          const signal = cli.interruptible();
          const manager = await managerFor(session);
          const lines = new EventLines(cli.output, ndjson ? jsonText : quiet ? failureLine : workLine);
          const events = new WorkEvents(manager, (event) => lines.show(event));
          const what = `tasks of ${session.name} that begin with ${JSON.stringify(prefix)}`;
          await cli.errors.line(printable(`Runs ${what}, ${concurrency ?? 1} at a time. Ctrl-C ends it.`));
          const draining = () => void cli.errors.line(printable(drainText(events.underWay)));
          signal.addEventListener("abort", draining, { once: true });
          try {
            await manager.work({ ...options, signal, pauseOnSignal: false, onError: events.failed }, run);
          } finally {
            await lines.end();
            await manager.close();
          }
        }, "write");
      });
  },
};

const SHAPE = `
worker.js: export default (run) => run.step("send", () => send(run.input));`;

const SHOWN_TASKS = 3;

/** `Draining: waits for mail/1, mail/2. Press Ctrl-C again to end at once.` */
function drainText(underWay: readonly string[]): string {
  if (underWay.length === 0) return "Draining: no task is under way.";
  const more = underWay.length - SHOWN_TASKS;
  const tasks = `${underWay.slice(0, SHOWN_TASKS).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  return `Draining: waits for ${tasks}. Press Ctrl-C again to end at once.`;
}

/** Returns a manager with the whole configuration, because the runs read and save states. */
async function managerFor({ storage, config, damage }: Session): Promise<CheckpointManager> {
  const { file: _file, folder: _folder, storage: _storage, ...settings } = await config();
  const warn = (_details: object, message: string) => void damage.warn(message);
  const logger = { debug() {}, info() {}, warn, error: warn };
  const manager = new CheckpointManager({ ...settings, storage, ownsStorage: false, logger });
  manager.on("corrupt", (record) => void damage.add(record));
  return manager;
}
