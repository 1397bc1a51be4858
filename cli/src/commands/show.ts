import type { CheckpointSummary } from "waymark";
import { summaryOf } from "waymark/adapter";
import { findCheckpoint, readLatest, readState, requireTask } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { type PlainJson, plainJson } from "../plain-json.js";
import { jsonText } from "../printable.js";
import { parsePath, partAt } from "../state-path.js";
import { statusCell } from "../status-cell.js";
import { TablePrinter } from "../table.js";
import { agoText, bytesText, timeText } from "../words.js";

export const show: CommandFile = {
  example: 'waymark show build-42 --path "files[0]"',
  register(program, cli) {
    program
      .command("show")
      .summary("a checkpoint, its state")
      .description("One checkpoint: by default the newest that can be read. ID is an id, @7 or @latest.")
      .argument("<task>")
      .argument("[id]")
      .option("--state", "print its state alone, as JSON")
      .option("--path <path>", "print that part of the state alone: messages[3].role")
      .option("--json", "for programs: the checkpoint with its state, in one line")
      .action((taskId, id, options) =>
        cli.withStore(async (session) => {
          const steps = options.path === undefined ? undefined : parsePath(options.path);
          await requireTask(session, taskId);
          const { checkpoint, state } = await readOne(session, taskId, id);
          const indent = options.json ? undefined : 2;
          if (steps !== undefined) await session.output.line(jsonText(partAt(state, steps), indent));
          else if (options.state) await session.output.line(jsonText(state, indent));
          else if (options.json) await session.output.line(jsonText({ ...checkpoint, state }));
          else await print(session, checkpoint, state);
        }),
      );
  },
};

async function readOne(session: Session, taskId: string, id: string | undefined) {
  if (id === undefined || id === "@latest") {
    const { checkpoint, state } = await readLatest(session, taskId);
    return { checkpoint, state: plainJson(state) };
  }
  const checkpoint = await findCheckpoint(session, taskId, id);
  return { checkpoint: summaryOf(checkpoint), state: plainJson(await readState(session, checkpoint)) };
}

async function print({ output }: Session, checkpoint: CheckpointSummary, state: PlainJson): Promise<void> {
  const { taskId, id, sequence, createdAt, stage, label, parentId, status, error, metadata, sizeBytes } = checkpoint;
  const table = new TablePrinter(output, [{ head: "" }, { head: "", flexible: true }]);
  const row = async (name: string, text: string | undefined) => {
    if (text !== undefined) await table.add({ text: name, color: output.colors.dim }, text);
  };
  await row("task", taskId);
  await row("checkpoint", `${id} (@${sequence})`);
  await row("saved", `${timeText(createdAt)} UTC, ${agoText(createdAt, Date.now())}`);
  await table.add({ text: "status", color: output.colors.dim }, statusCell(status, output.colors));
  await row("error", error && [error.name, error.code, error.message].filter((part) => part !== undefined).join(": "));
  await row("stage", stage);
  await row("label", label);
  await row("goes on from", parentId);
  await row("metadata", metadata && jsonText(metadata));
  await row("state", `${outline(state)}, ${bytesText(sizeBytes)}; --state prints it`);
  await table.end();
}

/** What is there, without what it holds. */
function outline(state: PlainJson): string {
  if (Array.isArray(state)) return `an array of ${state.length}`;
  if (typeof state !== "object" || state === null) return jsonText(state);
  return `{ ${Object.keys(state).slice(0, 12).join(", ")}${Object.keys(state).length > 12 ? ", …" : ""} }`;
}
