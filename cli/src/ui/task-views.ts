import { randomUUID } from "node:crypto";
import { type ListedTask, listTasks } from "../queries/tasks.js";
import type { TaskRow, TasksAnswer, TasksRequest } from "./api-tasks.js";
import { givingWay } from "./giving-way.js";
import type { Watching } from "./live.js";
import type { PageSession } from "./page-session.js";
import { taskRow } from "./rows.js";
import { contentFilter } from "./task-filter.js";

const MOST_VIEWS = 4;
/** If the next part of a list would exceed this many tasks, the list is read to its end. */
const MOST_IN_PART = 10_000;
const PART_GROWTH = 10;

/** LRU cache of the task lists that are being paged through. */
export class TaskViews {
  readonly #views = new Map<string, TaskView>();

  /** @param options - `open` makes the session of a new list. The signal stops its reading. */
  async page(request: TasksRequest, { open, signal }: Pick<Watching, "open" | "signal">): Promise<TasksAnswer> {
    const { view, offset, limit } = request;
    const known = view === undefined ? undefined : this.#views.get(view);
    const found = known?.isOf(request) ? known : new TaskView(request, open());
    // Moves the list to the end: the first list in the map is evicted first.
    this.#views.delete(found.id);
    this.#views.set(found.id, found);
    for (const id of this.#views.keys()) {
      if (this.#views.size <= MOST_VIEWS) break;
      this.#views.delete(id);
    }
    try {
      return await found.page(offset, limit, signal);
    } catch (error) {
      this.#views.delete(found.id);
      throw error;
    }
  }
}

/** A list of tasks as it was when it was read. It is read only as far as pages were requested. */
class TaskView {
  readonly id = randomUUID();
  readonly #session: PageSession;
  readonly #request: TasksRequest;
  readonly #isWanted: ReturnType<typeof contentFilter>;
  readonly #rows: TaskRow[] = [];
  readonly #ids = new Set<string>();
  /** How many tasks to read in the current part. Reading the whole list at once would delay the first page. */
  #limit: number;
  #tasks: AsyncGenerator<ListedTask, void, void>;
  /** How many tasks of this part were read. */
  #count = 0;
  #isWhole = false;
  #reading: Promise<void> = Promise.resolve();

  constructor(request: TasksRequest, session: PageSession) {
    this.#request = request;
    this.#session = session;
    this.#isWanted = contentFilter(request, Date.now());
    // A search looks at every task anyway.
    this.#limit = this.#isWanted === undefined ? request.offset + request.limit + 1 : Number.POSITIVE_INFINITY;
    this.#tasks = this.#read();
  }

  isOf(request: TasksRequest): boolean {
    return listKey(request) === listKey(this.#request);
  }

  async page(offset: number, limit: number, signal: AbortSignal): Promise<TasksAnswer> {
    // An abort of the first page stops the reading. An abort of a later page doesn't: its rows were only scrolled past.
    const stop = offset === 0 ? signal : undefined;
    // An error of the previous page belongs to that page's request. One more item shows whether the list ends here.
    const reading = this.#reading.catch(() => undefined).then(() => this.#readTo(offset + limit + 1, stop));
    this.#reading = reading;
    await reading;
    const { damage } = this.#session;
    return {
      view: this.id,
      now: new Date().toISOString(),
      offset,
      tasks: this.#rows.slice(offset, offset + limit),
      ...(this.#isWhole && { total: this.#rows.length }),
      damage: damage.records,
      warnings: damage.warnings,
    };
  }

  async #readTo(count: number, signal: AbortSignal | undefined): Promise<void> {
    while (this.#rows.length < count && !this.#isWhole) {
      signal?.throwIfAborted();
      const read = await this.#tasks.next();
      if (read.done) {
        this.#isWhole = this.#count < this.#limit;
        if (this.#isWhole) return;
        const next = this.#limit * PART_GROWTH;
        this.#limit = next > MOST_IN_PART ? Number.POSITIVE_INFINITY : next;
        this.#tasks = this.#read();
        continue;
      }
      this.#count += 1;
      const { taskId } = read.value;
      if (this.#ids.has(taskId)) continue;
      this.#ids.add(taskId);
      const damage = this.#session.damage.records.filter((record) => record.taskId === taskId);
      this.#rows.push(taskRow(read.value, Date.now(), damage));
    }
  }

  #read(): AsyncGenerator<ListedTask, void, void> {
    this.#count = 0;
    const { order, prefix, status, stage } = this.#request;
    return givingWay(
      listTasks(this.#session, { order, prefix, status, stage, limit: this.#limit, isWanted: this.#isWanted }),
    );
  }
}

/** Returns a key that is the same for all pages of a list. */
function listKey({ order, prefix, status, stage, text, withinMs, error }: TasksRequest): string {
  return JSON.stringify([order, prefix, status, stage, text, withinMs, error]);
}
