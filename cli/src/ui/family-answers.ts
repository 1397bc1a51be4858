import type { CheckpointSummary } from "waymark";
import { isOfRun, readOrigin, readParent } from "waymark/kit";
import { takeFirst } from "../first-of.js";
import { describeTask, type FoundTask, findTask, findTasks } from "../langgraph/find-tasks.js";
import { LeaseReader } from "../leases.js";
import { readableSummaries } from "../read-stored.js";
import type { Queries } from "./api.js";
import type { FamilyAnswer, FamilyMember } from "./api-tasks.js";
import { givingWay } from "./giving-way.js";
import type { PageSession } from "./page-session.js";
import { pickDefined, taskRow } from "./rows.js";

const MOST_ABOVE = 20;
const MOST_BELOW = 50;
/** How many tasks may have their first checkpoint read. */
const MOST_READ = 1_000;

/** How a task came from another one: as its child or as its fork. */
type Link = Pick<FamilyMember, "parent" | "forkedFrom">;

interface Relative {
  readonly taskId: string;
  readonly depth: number;
  readonly link: Link;
  /** Missing if the task was removed. */
  readonly found: FoundTask | undefined;
}

/** Finds the tasks that a task comes from, and those that come from it. Its siblings are left out. */
export async function answerFamily(
  session: PageSession,
  { taskId }: Queries["family"]["request"],
  signal: AbortSignal,
): Promise<FamilyAnswer> {
  const above = await listAbove(session, taskId);
  const below = await listBelow(session, above, signal);
  const relatives = [...above, ...below.slice(0, MOST_BELOW)];
  if (relatives.length === 1) return { members: [], more: 0 };
  const leases = new LeaseReader(session);
  const members = relatives.map(async ({ found, link, ...relative }): Promise<FamilyMember> => {
    const name = describeTask(relative);
    const row = found && taskRow(await leases.described(found), Date.now(), []);
    const newest = found && { id: found.newest.id, sequence: found.newest.sequence };
    return { ...relative, name, ...pickDefined({ status: row?.status, newest }), ...(relative.depth > 0 && link) };
  });
  return { members: await Promise.all(members), more: Math.max(0, below.length - MOST_BELOW) };
}

/** Returns the chain of parents and origins down to the task itself. */
async function listAbove(session: PageSession, taskId: string): Promise<readonly Relative[]> {
  const chain: Omit<Relative, "depth">[] = [];
  let id: string | undefined = taskId;
  while (id !== undefined && chain.length < MOST_ABOVE && !chain.some((other) => other.taskId === id)) {
    const found: FoundTask | undefined = await findTask(session.storage, id);
    const link = found ? await findLink(session, found) : {};
    chain.unshift({ taskId: id, found, link });
    id = sourceOf(link);
  }
  return chain.map((relative, depth) => ({ ...relative, depth }));
}

/** Returns the descendants of the last task of a chain, each below the task that it comes from. */
async function listBelow(
  session: PageSession,
  above: readonly Relative[],
  signal: AbortSignal,
): Promise<readonly Relative[]> {
  const bySource = new Map<string, { readonly found: FoundTask; readonly link: Link }[]>();
  let read = 0;
  for await (const found of givingWay(findTasks(session, { order: "taskId" }))) {
    signal.throwIfAborted();
    if (namesOriginFirst(found)) read += 1;
    const link = read <= MOST_READ ? await findLink(session, found) : readLink(found.newest);
    const source = sourceOf(link);
    if (source === undefined) continue;
    const siblings = bySource.get(source) ?? [];
    siblings.push({ found, link });
    bySource.set(source, siblings);
  }
  const known = new Set(above.map(({ taskId }) => taskId));
  const below: Relative[] = [];
  const add = (source: string, depth: number) => {
    const related = bySource.get(source) ?? [];
    const isFork = ({ link }: { readonly link: Link }) => link.forkedFrom !== undefined;
    for (const { found, link } of [...related.filter((one) => !isFork(one)), ...related.filter(isFork)]) {
      const { taskId } = found;
      if (known.has(taskId)) continue;
      known.add(taskId);
      below.push({ taskId, depth, link, found });
      add(taskId, depth + 1);
    }
  };
  const own = above.at(-1);
  if (own) add(own.taskId, own.depth + 1);
  return below;
}

async function findLink(session: PageSession, found: FoundTask): Promise<Link> {
  if (!namesOriginFirst(found)) return readLink(found.newest);
  const { taskId } = found;
  const [first] = await takeFirst(readableSummaries(session, { taskId, order: "oldest", limit: 1 }));
  return first ? readLink(first) : {};
}

/** Whether only the task's first checkpoint would name an origin: all checkpoints of a run do. */
function namesOriginFirst({ newest, count }: FoundTask): boolean {
  return count > 1 && !isOfRun(newest);
}

/** A fork of a child run is shown as a fork. */
function readLink(checkpoint: CheckpointSummary): Link {
  const forkedFrom = readOrigin(checkpoint);
  return forkedFrom ? { forkedFrom } : pickDefined({ parent: readParent(checkpoint) });
}

function sourceOf({ forkedFrom, parent }: Link): string | undefined {
  return forkedFrom?.taskId ?? parent?.taskId;
}
