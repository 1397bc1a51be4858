import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type CheckpointOptions,
  type CheckpointState,
  createCheckpoint,
  type InvalidCheckpointFile,
  type IscCriterionSnapshot,
} from "waymark/phase-checkpoints";
import { z } from "zod";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";
import { visibleIn } from "../../support/visible-files.js";

/** The spec's schema, word for word: FR-1 and T-10.1. */
export const SpecSchema = z.object({
  id: z.string().min(1),
  sessionId: z.string(),
  phase: z.string(),
  phaseNumber: z.number().min(1).max(7),
  createdAt: z.string().datetime(),
  completed: z.boolean(),
  taskSummary: z.string(),
  iscCriteria: z.array(
    z.object({ id: z.string(), subject: z.string(), status: z.enum(["pending", "in_progress", "completed"]) }),
  ),
  metadata: z.record(z.string(), z.unknown()),
});

export const CRITERIA: IscCriterionSnapshot[] = [
  { id: "c1", subject: "Tests pass for all modules", status: "pending" },
  { id: "c2", subject: "No regressions in the suite", status: "completed" },
];

export const SEED = `${JSON.stringify(
  { version: "1.0", identity: { name: "PAI" }, state: { lastSession: "s0", note: "kept" }, learned: [] },
  null,
  2,
)}\n`;

/** A folder like `~/.pai`: with checkpoints, and with a seed.json if its text is given. */
export async function paiFolder(seed?: string) {
  const root = await tempFolder();
  const logger = recordingLogger();
  const invalid: InvalidCheckpointFile[] = [];
  const options = {
    checkpointsDir: join(root, "checkpoints"),
    sessionId: "s1",
    onInvalidFile: (file) => invalid.push(file),
    logger,
  } satisfies CheckpointOptions;
  const seedPath = join(root, "seed.json");
  const eventsPath = join(root, "checkpoints.events.jsonl");
  if (seed !== undefined) await writeFile(seedPath, seed);

  return {
    root,
    options,
    logger,
    invalid,
    seedPath,
    eventsPath,
    create: async (phase = "build", phaseNumber = 4, changes: CheckpointOptions = {}): Promise<string> => {
      const result = await createCheckpoint(
        phase,
        phaseNumber,
        "Refactor the login flow",
        CRITERIA,
        { step: 3 },
        {
          ...options,
          ...changes,
        },
      );
      if (!result.ok) throw new Error(result.error);
      return result.checkpointId;
    },
    files: async (): Promise<string[]> => await visibleIn(options.checkpointsDir),
    seed: async () => JSON.parse(await readFile(seedPath, "utf8")),
    events: async () =>
      (await readFile(eventsPath, "utf8"))
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    /** Writes a file as the spec's own program does. */
    writeAsSpec: async (changes: Partial<CheckpointState> = {}, name?: string): Promise<CheckpointState> => {
      counter += 1;
      const number = counter;
      const state: CheckpointState = {
        id: `V1StGXR8_Z5jdHi6B-my${number}`,
        sessionId: "s0",
        phase: "observe",
        phaseNumber: 1,
        createdAt: "2026-02-01T12:00:00.000Z",
        completed: false,
        taskSummary: "Analyze the login flow",
        iscCriteria: CRITERIA,
        metadata: { key: "value" },
        ...changes,
      };
      await mkdir(options.checkpointsDir, { recursive: true });
      const timestamp = state.createdAt.replace(/:/g, "-").replace(/\.\d+Z$/, "Z");
      const file = join(options.checkpointsDir, name ?? `ckpt-${timestamp}-${state.phase}-${number}.json`);
      await writeFile(file, JSON.stringify(state, null, 2));
      return state;
    },
    /** Edits the only checkpoint, as a person would. */
    edit: async (changes: object): Promise<void> => {
      const [name = ""] = (await visibleIn(options.checkpointsDir)).filter((file) => file.startsWith("ckpt-"));
      const file = join(options.checkpointsDir, name);
      await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, "utf8")), ...changes }, null, 2));
    },
  };
}

let counter = 0;

export function daysAgo(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString();
}
