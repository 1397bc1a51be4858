import { CheckpointError } from "waymark";
import type { HeldLease } from "waymark/adapter";
import type { Session } from "./cli.js";
import { printable } from "./printable.js";

/**
 * Who holds a task. A lease that can't be read (it is damaged, or the role has no right to) is a line on the error output,
 * said once, and the task counts as nobody's.
 */
export function leaseReader({ storage, errors }: Session): (taskId: string) => Promise<HeldLease | undefined> {
  const said = new Set<string>();
  return async (taskId) => {
    try {
      return await storage.leases?.current(taskId);
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      const { message } = error;
      if (said.has(message)) return undefined;
      said.add(message);
      await errors.line(printable(`Who runs it can't be said: ${message}`));
      return undefined;
    }
  };
}
