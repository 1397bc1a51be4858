// Tests runs that begin within the runs of workers.
import { once } from "node:events";
import { beforeEach, expect, it } from "vitest";
import { type CheckpointManager, type Run, type StorageAdapter, StorageError, type WorkOptions } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { deferred } from "../../support/deferred.js";
import { shortenPauses } from "../../support/stopped-clock.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn, runOf, STORAGES } from "./run-support.js";

beforeEach(shortenPauses);

/** Starts a worker that runs `fn` until it is drained. */
function working(manager: CheckpointManager, fn: (run: Run) => unknown, options: Partial<WorkOptions> = {}) {
  const controller = new AbortController();
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const ended = manager.work(
    { prefix: "q/", concurrency: 2, signal: controller.signal, pauseOnSignal: false, onError, ...options },
    fn,
  );
  const drain = async () => {
    controller.abort();
    await ended;
  };
  return { drain, errors };
}

it.each(Object.entries(STORAGES))("a worker leaves a child run to the run around it (%s)", async (_, open) => {
  const storage = await open();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t", "ada");
  const sending = deferred<void>();
  const first = working(manager, (run) =>
    run.step("upload", () =>
      manager.run(`${run.taskId}/upload`, async (inner) => {
        await inner.step("resize", () => "small");
        return inner.step("send", ({ signal }) => {
          sending.resolve();
          return once(signal, "abort");
        });
      }),
    ),
  );
  await sending.promise;
  await first.drain();
  for (const taskId of ["q/t", "q/t/upload"]) expect((await manager.latest(taskId))?.status).toBe("paused");
  expect((await manager.queue({ prefix: "q/" })).tasks).toBe(1);
  expect((await manager.findIncomplete()).map(({ taskId }) => taskId)).toEqual(["q/t"]);
  expect((await manager.findIncomplete({ limit: 1 })).map(({ taskId }) => taskId)).toEqual(["q/t"]);

  const other = managerOn(storage).manager;
  const ran: string[] = [];
  const completed = new Promise<void>((resolve) => {
    other.on("runEnded", ({ taskId }) => taskId === "q/t" && resolve());
  });
  const second = working(other, (run) => {
    ran.push(run.taskId);
    return run.step("upload", () =>
      other.run(`${run.taskId}/upload`, async (inner) => {
        const size = await inner.step("resize", () => expect.unreachable());
        return inner.step("send", () => `${size} ${run.input}`);
      }),
    );
  });
  await completed;
  await second.drain();
  expect([ran, second.errors]).toEqual([["q/t"], []]);
  expect((await runOf(other, "q/t"))?.result).toBe("small ada");
  await storage.close();
});

it("a child run waits for the lease of its former runner, and its own lasts as long as the parent", async () => {
  const storage = new MemoryAdapter();
  const { claim } = storage.leases;
  const asked: (readonly [taskId: string, holder: string, ttlMs: number])[] = [];
  const former = await claim("q/t/inner", "died", 60_000);
  storage.leases.claim = async (taskId, holder, ttlMs, options) => {
    const claimed = await claim(taskId, holder, ttlMs, options);
    asked.push([taskId, holder, ttlMs]);
    if (!claimed.isGranted) await storage.leases.release(taskId, former.token);
    return claimed;
  };
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  const ended = new Promise((resolve) => {
    manager.on("runEnded", ({ taskId, status }) => taskId === "q/t" && resolve(status));
  });
  const controller = new AbortController();
  const errors: unknown[] = [];
  const working = manager.work(
    {
      prefix: "q/",
      signal: controller.signal,
      pauseOnSignal: false,
      leaseOptions: { ttlMs: 45_000, holder: "me" },
      onError: (error) => errors.push(error),
    },
    (run) => run.step("inner", () => manager.run("q/t/inner", () => 1)),
  );
  expect(await ended).toBe("completed");
  controller.abort();
  await working;
  expect(errors).toEqual([]);
  expect(asked).toEqual([
    ["q/t/inner", "me", 45_000],
    ["q/t/inner", "me", 45_000],
  ]);
});

const held = async (storage: MemoryAdapter) => {
  const { token } = await storage.leases.claim("inner", "somebody", 60_000);
  return () => storage.leases.release("inner", token);
};
const failing = async (storage: MemoryAdapter) => {
  const append = storage.append.bind(storage);
  storage.append = async (draft, ...how) => {
    if (draft.taskId === "inner") throw new StorageError("The disk is full.");
    return append(draft, ...how);
  };
  return async () => {
    storage.append = append;
  };
};

const taken = async (storage: MemoryAdapter) => {
  const append = storage.append.bind(storage);
  let token = 0;
  storage.append = async (draft, ...how) => {
    if (draft.taskId === "inner") ({ token } = await storage.leases.claim("inner", "another", 60_000, { force: true }));
    return append(draft, ...how);
  };
  return async () => {
    storage.append = append;
    await storage.leases.release("inner", token);
  };
};

it.each([
  ["somebody runs it", held, "LEASE_HELD"],
  ["somebody takes it over", taken, "LEASE_LOST"],
  ["its storage fails", failing, "STORAGE_FAILED"],
])(
  "if a child run can't continue because %s, the run around it is paused, and continues later",
  async (_, stop, code) => {
    const storage = new MemoryAdapter();
    const { manager } = managerOn(storage);
    const outer = () =>
      manager.run("outer", (run) => run.step("inner", () => manager.run("inner", () => 1, { waitForLeaseMs: 0 })));
    const goOn = await stop(storage);
    await expect(outer()).rejects.toMatchObject({ code: "RUN_PAUSED", taskId: "outer", cause: { code } });
    expect((await manager.latest("outer"))?.status).toBe("paused");
    await goOn();
    expect(await outer()).toBe(1);
  },
);

it.each<[string, (run: Run, inner: Promise<unknown>) => Promise<unknown>]>([
  ["catches the error", (_, inner) => inner.catch(() => "another")],
  ["throws another error", (_, inner) => inner.catch((cause) => Promise.reject(new Error("no upload", { cause })))],
  ["compensates", (run, inner) => inner.catch((error: Error) => run.step("refund", () => Promise.reject(error)))],
  ["passes it to Promise.any", (_, inner) => Promise.any([inner])],
])("a run is paused if a child run can't continue, also if its function %s", async (_, outside) => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  const goOn = await held(storage);
  const outer = () =>
    manager.run("outer", (run: Run) =>
      outside(
        run,
        run.step("inner", () => manager.run("inner", () => 1, { waitForLeaseMs: 0 })),
      ),
    );
  await expect(outer()).rejects.toMatchObject({ code: "RUN_PAUSED", taskId: "outer" });
  expect((await runOf(manager, "outer"))?.steps).toEqual([]);
  await goOn();
  expect(await outer()).toBe(1);
});

/** Runs an attempt whose process is killed in the inner step with this number. */
async function killedIn(step: number, storage: MemoryAdapter): Promise<void> {
  let isDead = false;
  const append: StorageAdapter["append"] = async (...args) => {
    if (isDead) throw new StorageError("The process was killed.");
    return storage.append(...args);
  };
  const dying = withMembers(storage, { append });
  const { manager } = managerOn(dying);
  const ended = new Promise<void>((resolve) => {
    manager.on("runPaused", ({ taskId }) => taskId === "q/t" && resolve());
  });
  const worker = working(
    manager,
    (run) =>
      run.step("subtask", () =>
        manager.run("q/t/subtask", async (inner) => {
          for (let n = 0; n <= step; n += 1) {
            await inner.step(`${n}`, () => {
              isDead = n === step;
            });
          }
        }),
      ),
    { maxAttempts: 2 },
  );
  await ended;
  await worker.drain();
}

it("attempts in which a child run recorded something don't count as attempts without a save", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  for (let step = 1; step <= 4; step += 1) await killedIn(step, storage);
  const ended = new Promise<string>((resolve) => {
    manager.on("runEnded", ({ taskId, status }) => taskId === "q/t" && resolve(status));
  });
  const last = working(manager, (run) => run.step("subtask", () => 1), { maxAttempts: 2 });
  expect(await ended).toBe("completed");
  await last.drain();
});

it("parallel child runs make their parent run note it once, also through a run in between", async () => {
  const { manager } = managerOn();
  await manager.enqueue("q/t");
  const ended = new Promise<void>((resolve) => {
    manager.on("runEnded", ({ taskId }) => taskId === "q/t" && resolve());
  });
  const last = deferred<void>();
  let left = 10;
  const worker = working(manager, (run) =>
    run.step("middle", () =>
      manager.run("q/t/middle", (middle) =>
        Promise.all(
          Array.from({ length: left }, (_, n) =>
            middle.step(`${n}`, () =>
              manager.run(`q/t/${n}`, async (inner) => {
                await inner.step("a", () => n);
                left -= 1;
                if (left === 0) last.resolve();
                await last.promise;
              }),
            ),
          ),
        ),
      ),
    ),
  );
  await ended;
  await worker.drain();
  const notes: unknown[] = [];
  for await (const record of manager.records("q/t", { kinds: ["run"] }))
    if ("value" in record) notes.push(record.value);
  expect(notes.filter((note) => JSON.stringify(note).includes("A child run has recorded"))).toHaveLength(1);
});

it("a child run's own error fails the run around it, also if it is an error of a storage", async () => {
  const { manager } = managerOn();
  const fail = () => {
    throw new StorageError("The user's own storage failed.");
  };
  const outer = manager.run("outer", (run) => run.step("inner", () => manager.run("inner", fail)));
  await expect(outer).rejects.toMatchObject({ code: "STORAGE_FAILED" });
  for (const taskId of ["outer", "inner"]) expect((await manager.latest(taskId))?.status).toBe("failed");
});
