import type { CheckpointData } from "waymark/prp";
import { colours, fitted, type Paint, seconds } from "./screen.js";
import { isResumed, stepOf } from "./step.js";

interface Row {
  readonly symbol: string;
  readonly paint: Paint;
  readonly name: string;
  readonly text: string;
  /** Whether the line shows an event that isn't a step of the work, such as the kill. */
  readonly isEvent: boolean;
  readonly fromMs: number;
  readonly toMs: number;
  readonly size: string;
}

// Together with the spaces in between and the margin, the widths add up to 80 columns.
const AT_WIDTH = 7;
const NAME_WIDTH = 17;
const BAR_WIDTH = 18;
const TEXT_WIDTH = 20;
const SIZE_WIDTH = 8;

/**
 * Returns a line for each checkpoint and one for the kill, in order: the time, the step, and a bar for the time that
 * the step took.
 */
export function timelineOf(checkpoints: readonly CheckpointData[], startedAtMs: number, killedAtMs: number): string[] {
  const killMs = killedAtMs - startedAtMs;
  const rows: Row[] = [];
  let fromMs = 0;
  for (const checkpoint of checkpoints) {
    const toMs = checkpoint.createdAt.getTime() - startedAtMs;
    if (fromMs <= killMs && killMs < toMs) {
      rows.push(killRow(fromMs, killMs));
      fromMs = killMs;
    }
    const { symbol, paint, text } = stepOf(checkpoint);
    const isEvent = isResumed(checkpoint);
    const size = sizeOf(checkpoint);
    rows.push({ symbol, paint, text, name: checkpoint.state.stage, isEvent, fromMs, toMs, size });
    fromMs = toMs;
  }
  return [header(fromMs), ...rows.map((row) => drawn(row, fromMs))];
}

function killRow(fromMs: number, toMs: number): Row {
  const text = "no time to save";
  return { symbol: "╳", paint: colours.red, name: "SIGKILL", text, isEvent: true, fromMs, toMs, size: "" };
}

function header(endMs: number): string {
  const scale = `0${seconds(endMs).padStart(BAR_WIDTH - 1)}`;
  const cells = ["at".padStart(AT_WIDTH), ` ${fitted("checkpoint", NAME_WIDTH + 2)}`, scale, fitted("", TEXT_WIDTH)];
  return colours.dim([...cells, "state".padStart(SIZE_WIDTH)].join(" "));
}

function drawn({ symbol, paint, name, text, isEvent, fromMs, toMs, size }: Row, endMs: number): string {
  const emphasize: Paint = isEvent ? paint : (plain) => plain;
  return [
    colours.dim(seconds(toMs).padStart(AT_WIDTH)),
    ` ${paint(symbol)} ${emphasize(fitted(name, NAME_WIDTH))}`,
    bar(fromMs / endMs, toMs / endMs, paint),
    emphasize(fitted(text, TEXT_WIDTH)),
    colours.dim(size.padStart(SIZE_WIDTH)),
  ].join(" ");
}

function bar(from: number, to: number, paint: Paint): string {
  const start = Math.min(Math.floor(from * BAR_WIDTH), BAR_WIDTH - 1);
  const length = Math.max(1, Math.round(to * BAR_WIDTH) - start);
  const rest = BAR_WIDTH - start - length;
  return `${colours.dim("·".repeat(start))}${paint("━".repeat(length))}${colours.dim("·".repeat(rest))}`;
}

/** Returns the size of the state as JSON. */
function sizeOf({ state }: CheckpointData): string {
  return `${(Buffer.byteLength(JSON.stringify(state)) / 1024).toFixed(1)} KB`;
}
