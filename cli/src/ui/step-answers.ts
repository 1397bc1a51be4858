import { isError, isRecord } from "waymark/kit";
import { CommandError, ExitCode } from "../exit-code.js";
import { readRecord } from "../queries/record.js";
import { stepOfRecord } from "../record-text.js";
import { stepTitle } from "../run-steps.js";
import type { Queries } from "./api.js";
import type { ErrorInfo } from "./api-parts.js";
import type { StepAnswer } from "./api-runs.js";
import { errorInfo } from "./error-info.js";
import type { PageSession } from "./page-session.js";
import { pickDefined } from "./rows.js";
import { typedValue } from "./typed-values.js";

type StoredRecord = NonNullable<Awaited<ReturnType<typeof readRecord>>>;

/** How many of a step's newest chunks are shown. */
const MOST_CHUNKS = 100;
/** How many chunks are searched for them, including chunks of other steps. */
const MOST_READ = 1_000;

export async function answerStep(
  session: PageSession,
  { taskId, record }: Queries["step"]["request"],
): Promise<StepAnswer> {
  const stored = await readRecord(session, taskId, record);
  const answer = stored && describeStep(stored);
  if (stored === undefined || answer === undefined) {
    const what = `Task ${JSON.stringify(taskId)} has no step @${record} in ${session.name}.`;
    throw new CommandError(ExitCode.notFound, `${what} Its record may have been removed.`);
  }
  return { ...answer, chunks: await readChunks(session, stored) };
}

/** Describes a step without its chunks; `undefined` if the record doesn't belong to a step. */
export function describeStep(record: StoredRecord): StepAnswer | undefined {
  const step = stepOfRecord(record);
  if (step === undefined || step.status === "saved") return undefined;
  const { status, startedAt, durationMs, attempts, runAttempt } = step;
  const { input } = isRecord(record.value) ? record.value : {};
  return {
    record: record.sequence,
    title: stepTitle(step),
    ...{ status, startedAt, runAttempt },
    ...pickDefined({ durationMs, attempts, inputDigest: typeof input === "string" ? input : undefined }),
    ...("result" in step && { result: typedValue(step.result) }),
    ...("error" in step && { error: recordedError(step.error) }),
    chunks: [],
  };
}

/** Describes a recorded error, with its stacks. */
export function recordedError(error: unknown): ErrorInfo {
  if (isError(error)) return errorInfo(error, { hasStack: true });
  if (!isRecord(error)) return { name: "Error", message: String(error), causes: [] };
  const { name, message } = error;
  return {
    name: typeof name === "string" ? name : "Error",
    message: typeof message === "string" ? message : JSON.stringify(error),
    causes: [],
  };
}

async function readChunks(session: PageSession, step: StoredRecord): Promise<StepAnswer["chunks"]> {
  const { taskId, sequence, name, recordKey, kind } = step;
  // A step's chunks come after the mark of its start and before its record.
  const bound = kind === "mark" ? { afterSequence: sequence } : { beforeSequence: sequence };
  const query = { ...bound, kinds: ["chunk"], order: "newest", limit: MOST_READ } as const;
  const chunks: StepAnswer["chunks"][number][] = [];
  for await (const record of (await session.configured()).records(taskId, query)) {
    if (record.recordKey !== recordKey || record.name !== name || !isRecord(record.value)) continue;
    const { attempt, chunk } = record.value;
    chunks.unshift({ attempt: Number(attempt), value: typedValue(chunk) });
    if (chunks.length === MOST_CHUNKS) break;
  }
  return chunks;
}
