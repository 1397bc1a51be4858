// Random calls of tasks that several processes lease, and reads by random queries. Only the history checks them.
import { ownHolder } from "waymark/adapter";

/** Never removed as a whole, so that their histories are checked. */
const LEASED = ["leased-one", "leased-two"];
const KINDS = /** @type {const} */ (["step", "event", "chunk", "run", "mark"]);

export class LeasedCalls {
  /** The last token of each task. @type {Map<string, number>} */
  #tokens = new Map();
  /** The last sequence that this process has written in each task. @type {Map<string, number>} */
  #written = new Map();
  #storage;
  #others;
  #make;

  /**
   * @param {import("waymark").StorageAdapter} storage
   * @param {readonly string[]} others - More tasks to read.
   * @param {object} make - What the program makes: random numbers below another, records and drafts of checkpoints.
   */
  constructor(storage, others, make) {
    this.#storage = storage;
    this.#others = others;
    this.#make = make;
  }

  /** Makes a call at random. @param {string} id - Of what it stores. @throws The condition is refused. */
  async call(id) {
    const { random } = this.#make;
    const { leases, queue } = this.#storage;
    const taskId = LEASED[random(2)];
    if (random(3) === 0) return this.#read([...LEASED, ...this.#others][random(LEASED.length + this.#others.length)]);
    const fencingToken = this.#tokens.get(taskId);
    const kind = random(100);
    const ttlMs = [20, 60_000][random(2)];
    if (fencingToken === undefined || kind < 15) {
      const claim = await leases.claim(taskId, ownHolder(), ttlMs, { force: random(6) === 0 });
      if (claim.isGranted) this.#tokens.set(taskId, claim.token);
    } else if (kind < 25) {
      const dueBy = random(4) === 0 ? "2026-01-01T00:00:00.000Z" : "2026-06-01T00:00:00.000Z";
      const query = { prefix: "leased-", dueBy, ...(random(3) === 0 && { except: [taskId] }) };
      const claimed = (await queue?.claimNext(query, ownHolder(), ttlMs, 1 + random(2))) ?? [];
      for (const one of claimed) this.#tokens.set(one.taskId, one.token);
    } else if (kind < 35) await leases.renew(taskId, fencingToken - Number(random(8) === 0), ttlMs);
    else if (kind < 45) await leases.release(taskId, fencingToken);
    else await this.#write(taskId, { fencingToken, ...this.#condition(taskId) }, id, kind);
  }

  /** A condition that may hold or not. */
  #condition(taskId) {
    const sequence = this.#written.get(taskId) ?? 0;
    return [{ expectedSequence: sequence }, { noEventAfter: sequence }][this.#make.random(8)];
  }

  async #write(taskId, condition, id, kind) {
    const { random, record, draft } = this.#make;
    const { log } = this.#storage;
    const records = Array.from({ length: 1 + random(2) }, (_, at) => record(`${id}-${at}`, KINDS[random(5)]));
    if (log && kind < 75) {
      const dueAt = random(6) === 0 ? "2026-02-01T00:00:00.000Z" : undefined;
      this.#written.set(taskId, await log.append(taskId, records, condition, { lazy: random(3) === 0, dueAt }));
    } else if (log && kind < 78) {
      await log.remove(taskId, { kinds: [KINDS[random(5)]], beforeSequence: random(60) }, condition);
    } else if (kind < 80) {
      for await (const { id } of this.#storage.list({ taskId, order: "oldest", limit: 1 }))
        if (id !== undefined) await this.#storage.remove(taskId, [id], condition);
    } else {
      const dueAt = random(3) === 0 ? undefined : "2026-02-01T00:00:00.000Z";
      const saved = {
        ...draft(taskId, id, JSON.stringify({ of: id })),
        status: ["running", "paused"][random(2)],
        ...(dueAt && { dueAt }),
      };
      const options = log && random(2) === 0 ? { records } : {};
      this.#written.set(taskId, await this.#storage.append(saved, condition, options));
    }
  }

  /** Reads a task by a random query, to its end or not. */
  async #read(taskId) {
    const { random } = this.#make;
    const last = this.#written.get(taskId) ?? 100;
    const query = {
      taskId,
      order: ["newest", "oldest"][random(2)],
      ...(random(3) === 0 && { afterSequence: random(last + 2) }),
      ...(random(3) === 0 && { beforeSequence: random(last + 2) }),
      ...(random(3) === 0 && { limit: 1 + random(4) }),
    };
    const ofLog = {
      ...query,
      ...(random(2) === 0 && { kinds: [KINDS[random(5)], ...(random(2) === 0 ? ["checkpoint"] : [])] }),
      ...(random(4) === 0 && { name: `n${random(3)}` }),
      headersOnly: random(2) === 0,
      durableOnly: random(4) === 0,
    };
    const { log } = this.#storage;
    const reads = [() => this.#storage.read(query), () => this.#storage.list(query), () => log?.read(ofLog) ?? []];
    let left = random(3) === 0 ? random(5) : Number.POSITIVE_INFINITY;
    for await (const item of reads[random(reads.length)]()) {
      if ("reason" in item) throw new Error(`${taskId}: ${item.reason}`);
      if (left-- <= 0) return;
    }
  }
}
