import { nanoid } from "nanoid";
import { isRunning, ownIdentity, type ProcessIdentity } from "./process-group.js";

/** Who works on a task: a process, and which of its runs. */
export interface RunnerIdentity extends ProcessIdentity {
  readonly runId: string;
}

/** The runs of this process that are under way. */
const underWay = new Set<string>();

/** A run of this process, which counts as under way from `begin` to `end`. */
export class Runner {
  readonly identity: RunnerIdentity;

  private constructor(identity: RunnerIdentity) {
    this.identity = identity;
    underWay.add(identity.runId);
  }

  static async begin(): Promise<Runner> {
    return new Runner({ ...(await ownIdentity()), runId: nanoid() });
  }

  end(): void {
    underWay.delete(this.identity.runId);
  }
}

/** Whether that run is under way: in this process, or in another one of this machine that is still running. */
export async function isUnderWay(runner: RunnerIdentity): Promise<boolean> {
  const own = await ownIdentity();
  const isOwnProcess = runner.pid === own.pid && runner.startTime === own.startTime;
  return isOwnProcess ? underWay.has(runner.runId) : isRunning(runner);
}
