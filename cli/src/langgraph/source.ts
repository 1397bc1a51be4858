import type { Thread } from "waymark/langgraph/records";
import { z } from "zod";
import { CommandError, ExitCode } from "../exit-code.js";

/** The tables of one of LangGraph's own savers. It is only read, and as it was when it was opened. */
export interface Source {
  /** The threads that have checkpoints. */
  threads(): Promise<readonly Thread[]>;
  /** The ids of a thread's checkpoints. */
  ids(thread: Thread): Promise<readonly string[]>;
  /** @throws {UnreadableError} It isn't as LangGraph's savers for JavaScript write it. */
  read(thread: Thread, id: string): Promise<SourceCheckpoint | undefined>;
  close(): Promise<void>;
}

/** A checkpoint as it is stored: values are JSON that LangGraph's serializer made, or {@link TypedBytes}. */
export interface SourceCheckpoint {
  readonly parentId: string | undefined;
  readonly checkpoint: z.infer<typeof CheckpointJson>;
  readonly metadata: z.infer<typeof MetadataJson>;
  readonly writes: readonly SourceWrite[];
}

export interface SourceWrite {
  readonly taskId: string;
  readonly index: number;
  readonly channel: string;
  readonly value: unknown;
}

/** A value that isn't JSON. Its type is the serializer's. */
export class TypedBytes {
  readonly type: string;
  readonly bytes: Uint8Array;

  constructor(type: string, bytes: Uint8Array) {
    this.type = type;
    // A Buffer would be another value for a comparison.
    this.bytes = new Uint8Array(bytes);
  }
}

/** A stored checkpoint can't be read. The message is the end of a sentence. */
export class UnreadableError extends Error {}

/** An object as it is, whatever its keys are, with values of one kind. */
function objectOf<Value>(isValue: (value: unknown) => value is Value, otherwise: string) {
  const isObject = (value: unknown): value is Record<string, Value> =>
    typeof value === "object" && value !== null && Object.values(value).every(isValue);
  return { isObject, shape: z.custom<Record<string, Value>>(isObject, otherwise).default(() => ({})) };
}

const values = objectOf((value): value is unknown => true, "its channel values are no object");
const versions = objectOf(
  (value) => typeof value === "number",
  "its channel versions aren't numbers: LangGraph for Python wrote it",
);

const CheckpointJson = z.object({
  v: z.number(),
  id: z.string(),
  ts: z.string(),
  channel_values: values.shape,
  channel_versions: versions.shape,
  versions_seen: objectOf(versions.isObject, "what its nodes have seen is no object").shape,
});

const MetadataJson = z.looseObject({
  source: z.enum(["input", "loop", "update", "fork"]),
  step: z.number(),
  parents: objectOf((id) => typeof id === "string", "the parents of its metadata are no object").shape,
});

/** The checkpoint of its stored parts. @throws {UnreadableError} */
export function checkpointFrom(
  parentId: string | null,
  parts: () => { readonly checkpoint: unknown; readonly metadata: unknown; readonly writes: readonly SourceWrite[] },
): SourceCheckpoint {
  try {
    const { checkpoint, metadata, writes } = parts();
    if (checkpoint instanceof TypedBytes)
      throw new Error(`the program had a serializer of its own, which wrote it as ${JSON.stringify(checkpoint.type)}`);
    return {
      parentId: parentId ?? undefined,
      checkpoint: CheckpointJson.parse(checkpoint),
      metadata: MetadataJson.parse(metadata),
      writes,
    };
  } catch (cause) {
    throw new UnreadableError(cause instanceof z.ZodError ? issueIn(cause) : String(cause), { cause });
  }
}

function issueIn({ issues: [issue] }: z.ZodError): string {
  return issue?.code === "custom" ? issue.message : `its ${issue?.path.join(".")}: ${issue?.message}`;
}

/** A value as a saver stores it. Without a type it is JSON. */
export function valueFrom(type: string | null, content: Uint8Array | string | null): unknown {
  if (type !== null && type !== "json") return new TypedBytes(type, Buffer.from(content ?? ""));
  return JSON.parse(typeof content === "string" ? content : DECODER.decode(content ?? undefined));
}

const DECODER = new TextDecoder();

/**
 * A module of a package that may not be installed.
 *
 * @throws {CommandError} It isn't.
 */
export async function loadPackage<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause && cause.code === "ERR_MODULE_NOT_FOUND")) throw cause;
    throw new CommandError(
      ExitCode.usage,
      `waymark langgraph import needs the package ${name}, and it isn't installed beside waymark-cli. In your project, ` +
        `npm install waymark-cli ${name}, then npx waymark langgraph import. Nothing was imported.`,
      { cause },
    );
  }
}
