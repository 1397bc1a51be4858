import type { output } from "zod";
import { CHECKPOINT_STATUSES, type CheckpointStatus } from "../../src/contract/checkpoint.js";
import { isoDate } from "../iso-date.js";
import { z } from "../zod.js";

/** The status of a feature's run, in the terms of the spec. */
export type OneshotStatus = CheckpointStatus;

/**
 * The data that a run needs beyond the spec's schema. It is stored under one key, which other programs ignore. A
 * checkpoint of another program lacks it, and can still be resumed.
 */
export const OneshotRunStateSchema = z.object({
  /** The plan's file, relative to the base folder. Absent if the plan was passed as an object. */
  plan: z.string().optional(),
  /** The folder of the workstreams and the command for each, if the plan consisted of these two. */
  workstreams: z.string().optional(),
  command: z.string().optional(),
});

export type OneshotRunState = output<typeof OneshotRunStateSchema>;

/** The file `.sdp/checkpoints/<feature>.json`, as in the spec. */
export const OneshotFileSchema = z.object({
  feature_id: z.string().min(1),
  agent_id: z.string(),
  status: z.enum(CHECKPOINT_STATUSES),
  /** Null if nothing was completed, because the spec's Go program writes null for an empty list. */
  completed_ws: z.array(z.string()).nullable(),
  current_ws: z.string(),
  start_time: isoDate,
  last_update: isoDate,
  /** See {@link OneshotRunStateSchema}. */
  waymark: OneshotRunStateSchema.optional(),
});

/** A feature's checkpoint: in memory {@link OneshotCheckpoint}, on disk {@link OneshotFileSchema}. */
export const OneshotCheckpointSchema = z.codec(
  OneshotFileSchema,
  z.strictObject({
    featureId: z.string().min(1),
    agentId: z.string(),
    status: z.enum(CHECKPOINT_STATUSES),
    completedWs: z.array(z.string()).readonly(),
    currentWs: z.string(),
    startTime: z.date(),
    lastUpdate: z.date(),
    waymark: OneshotRunStateSchema.optional(),
  }),
  {
    decode: (file) => ({
      featureId: file.feature_id,
      agentId: file.agent_id,
      status: file.status,
      completedWs: file.completed_ws ?? [],
      currentWs: file.current_ws,
      startTime: file.start_time,
      lastUpdate: file.last_update,
      ...(file.waymark === undefined ? undefined : { waymark: file.waymark }),
    }),
    encode: ({ waymark, ...checkpoint }) => ({
      feature_id: checkpoint.featureId,
      agent_id: checkpoint.agentId,
      status: checkpoint.status,
      completed_ws: [...checkpoint.completedWs],
      current_ws: checkpoint.currentWs,
      start_time: checkpoint.startTime,
      last_update: checkpoint.lastUpdate,
      ...(waymark === undefined ? undefined : { waymark: withoutUndefined(waymark) }),
    }),
  },
);

/** The state of a feature's run: the spec's `Checkpoint`. */
export interface OneshotCheckpoint {
  readonly featureId: string;
  /** The agent that works on the feature. */
  readonly agentId: string;
  readonly status: OneshotStatus;
  /** The completed workstreams, in the order in which they ended. A resumed run reads only this field. */
  readonly completedWs: readonly string[];
  /**
   * The running workstream that is first in the plan. If none runs, the first failed or stopped one. `""` if all are
   * done.
   */
  readonly currentWs: string;
  readonly startTime: Date;
  readonly lastUpdate: Date;
  /** See {@link OneshotRunStateSchema}. */
  readonly waymark?: OneshotRunState | undefined;
}

/** Omits undefined values, as JSON does. */
function withoutUndefined({ plan, workstreams, command }: OneshotRunState): OneshotRunState {
  return {
    ...(plan === undefined ? undefined : { plan }),
    ...(workstreams === undefined ? undefined : { workstreams }),
    ...(command === undefined ? undefined : { command }),
  };
}
