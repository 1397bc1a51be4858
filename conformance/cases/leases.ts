import type { StorageAdapter } from "../../src/contract/adapter.js";
import { toSummary } from "../../src/contract/checkpoint.js";
import type { AppendCondition } from "../../src/contract/conditions.js";
import { readCode } from "../../src/contract/errors.js";
import type { HeldTask, LeaseClaim } from "../../src/contract/leases.js";
import { holds, refused, same, show } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts } from "../drafts.js";
import {
  appendAll,
  collect,
  expectStored,
  listIds,
  MEETINGS,
  pass,
  requireLeases,
  untilFree,
  withOpen,
} from "../steps.js";

/** A time longer than any case takes. */
const LONG_MS = 600_000;
/**
 * A short time, for leases that expire. The machine may be busy, so no case relies on finishing anything within this
 * time.
 */
const SHORT_MS = 200;

/** The cases of adapters with `leases`. */
export const leaseCases: readonly ConformanceCase[] = [
  {
    name: "leases.one-holder",
    promise: "grants a task to one holder at a time, and returns who holds it",
    about: "leases",
    async run(store) {
      const adapter = await store.open();
      const leases = requireLeases(adapter);
      same(await leases.current("t"), undefined, "a task MUST have no lease before a claim");
      const claims = await Promise.all(["a", "b", "c"].map((holder) => leases.claim("t", holder, LONG_MS)));
      const [won, ...others] = claims.filter(({ isGranted }) => isGranted);
      same([won?.token, others], [1, []], "one of several claims at once MUST be granted, under token 1");
      for (const claim of claims) {
        same([claim.holder, claim.token], [won?.holder, 1], "each claim MUST name the holder and the token");
        holds(
          claim.remainingMs > 0 && claim.remainingMs <= LONG_MS,
          `a refused claim MUST tell how long the lease still lasts: ${show(claim)}`,
        );
      }
      same((await leases.current("t"))?.holder, won?.holder, "current MUST name the holder");
      same((await leases.claim("u", "a", LONG_MS)).isGranted, true, "another task MUST be free");
      await expectStored(adapter, []);
    },
  },
  {
    name: "leases.tokens-grow",
    promise: "assigns each claim a higher token, even after a release, the task's removal, or reopening",
    about: "leases",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      for (const token of [1, 2, 3]) {
        same((await claimed(adapter, "t")).token, token, "each claim MUST get the next token");
        await adapter.append(draft("t", `c${token}`), { fencingToken: token });
        await adapter.remove("t", "all", { fencingToken: token });
        await requireLeases(adapter).release("t", token);
        await requireLeases(adapter).release("t", token);
        same(await requireLeases(adapter).current("t"), undefined, "after a release, the task MUST have no lease");
        adapter = await store.carryOn(adapter);
      }
      await claimed(adapter, "t");
      await requireLeases(adapter).release("t", 3);
      same((await requireLeases(adapter).current("t"))?.token, 4, "release under an older token MUST change nothing");
    },
  },
  {
    name: "leases.fencing",
    promise: "refuses every write under a lease that its caller has lost",
    about: "leases",
    async run(store) {
      const adapter = await store.open();
      const leases = requireLeases(adapter);
      const { token } = await claimed(adapter, "t");
      const all = await appendAll(adapter, drafts("t", 2));
      await leases.release("t", token);
      const lost = async (fencingToken: number) => {
        const condition = { fencingToken };
        await refused("LEASE_LOST", adapter.append(draft("t", "late"), condition), "append MUST check the token");
        const change = adapter.setStatus("t", "c1", { status: "paused" }, condition);
        await refused("LEASE_LOST", change, "setStatus MUST check the token");
        for (const [taskId, id] of [["t", "nowhere"] as const, ["nowhere", "c1"] as const]) {
          const nothing = adapter.setStatus(taskId, id, { status: "paused" }, condition);
          await refused("LEASE_LOST", nothing, "setStatus MUST check the token before it looks for the checkpoint");
        }
        await refused("LEASE_LOST", adapter.remove("t", ["c1"], condition), "remove MUST check the token");
        await refused("LEASE_LOST", adapter.remove("t", "all", condition), "removing the task MUST check the token");
        await expectStored(adapter, all);
      };
      await lost(token);
      const next = await claimed(adapter, "t");
      await lost(token);
      await lost(next.token + 1);
      await refused(
        "LEASE_LOST",
        adapter.append(draft("u", "c1"), { fencingToken: 1 }),
        "append MUST be refused under a token if no one holds the lease",
      );
      same(await adapter.append(draft("t", "c3"), { fencingToken: next.token }), 3, "the holder MUST be able to write");
      same(await adapter.append(draft("t", "c4")), 4, "a write without a token MUST NOT need the lease");
    },
  },
  {
    name: "leases.one-step",
    promise:
      "checks the token in the write's atomic step, so that nothing is stored under a token once another claim is granted",
    about: "leases",
    async run(store) {
      const adapter = await store.open();
      const leases = requireLeases(adapter);
      const writes: Record<string, (taskId: string, condition: AppendCondition) => Promise<unknown>> = {
        append: (taskId, condition) => adapter.append(draft(taskId, "late"), condition),
        setStatus: (taskId, condition) => adapter.setStatus(taskId, "c1", { status: "paused" }, condition),
        remove: (taskId, condition) => adapter.remove(taskId, ["c1"], condition),
        "remove of the task": (taskId, condition) => adapter.remove(taskId, "all", condition),
      };
      for (const [name, write] of Object.entries(writes)) {
        for (const turns of MEETINGS) {
          const taskId = `${name} ${turns}`;
          const { token } = await claimed(adapter, taskId);
          const all = await appendAll(adapter, drafts(taskId, 2));
          const writing = write(taskId, { fencingToken: token }).then(() => "stored", readCode);
          await pass(turns);
          await leases.release(taskId, token);
          await claimed(adapter, taskId);
          const then = await collect(adapter.list({ taskId, order: "oldest" }));
          const outcome = await writing;
          holds(outcome === "stored" || outcome === "LEASE_LOST", `${name} MUST be stored, or refused as LEASE_LOST`);
          const obligation = `${name} MUST store nothing under a token after another claim was granted`;
          same(await collect(adapter.list({ taskId, order: "oldest" })), then, obligation);
          if (outcome !== "stored") same(then, all.map(toSummary), `${name} MUST store nothing if it is refused`);
        }
      }
    },
  },
  {
    name: "leases.repeats",
    promise: "answers a repeated append with its sequence, even if the lease was lost after the first one",
    about: "leases",
    async run(store) {
      const adapter = await store.open();
      const { token } = await claimed(adapter, "t");
      const one = draft("t", "c1");
      const sequence = await adapter.append(one, { fencingToken: token });
      await requireLeases(adapter).release("t", token);
      const obligation = "appending the same draft again MUST return its stored sequence, before the token is checked";
      same(await adapter.append(one, { fencingToken: token }), sequence, obligation);
      await claimed(adapter, "t");
      same(await adapter.append(one, { fencingToken: token }), sequence, obligation);
      await expectStored(adapter, [{ ...one, sequence }]);
    },
  },
  {
    name: "leases.expiry",
    promise: "lets a lease expire if it isn't renewed in time, and refuses later writes under it",
    about: "leases",
    async run(store) {
      const adapter = await store.open();
      const leases = requireLeases(adapter);
      const { token } = await claimed(adapter, "t", LONG_MS);
      same(await leases.renew("t", token, 2 * LONG_MS), true, "renew MUST return true while the lease is held");
      holds(
        ((await leases.current("t"))?.remainingMs ?? 0) > LONG_MS,
        "a renewed lease MUST last `ttlMs` from the renewal on",
      );
      same(await leases.renew("t", token, SHORT_MS), true, "a renewal MAY shorten the lease");
      await untilFree(leases, "t");
      same(await leases.renew("t", token, LONG_MS), false, "an expired lease MUST NOT be renewed");
      const late = adapter.append(draft("t", "late"), { fencingToken: token });
      await refused(
        "LEASE_LOST",
        late,
        "a write under an expired lease MUST be refused, even if nobody else has claimed the task",
      );
      same((await claimed(adapter, "t")).token, token + 1, "the next claim MUST be granted");
      same(await leases.renew("t", token, LONG_MS), false, "an older token MUST NOT be renewed");
      await expectStored(adapter, []);
    },
  },
  {
    name: "leases.lapsed",
    promise: "names the last holder of an expired lease, but not of a released one",
    about: "leases",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      same(await requireLeases(adapter).lapsed("t"), undefined, "a task MUST have no lapsed lease before a claim");
      const { token } = await claimed(adapter, "t");
      same(await requireLeases(adapter).lapsed("t"), undefined, "lapsed MUST NOT name a held lease");
      await requireLeases(adapter).renew("t", token, SHORT_MS);
      await untilFree(requireLeases(adapter), "t");
      adapter = await store.carryOn(adapter);
      const leases = requireLeases(adapter);
      const lapsed = await leases.lapsed("t");
      same([lapsed?.holder, lapsed?.token], ["holder", token], "lapsed MUST name the last holder");
      holds(
        (lapsed?.endedMs ?? -1) >= 0 && (lapsed?.endedMs ?? 0) < LONG_MS,
        `lapsed MUST tell how long ago the lease ended: ${show(lapsed)}`,
      );
      await leases.release("t", token);
      same(await leases.lapsed("t"), undefined, "lapsed MUST NOT name an expired lease once it is released");
      const next = await claimed(adapter, "t");
      same(await leases.lapsed("t"), undefined, "after a claim, lapsed MUST NOT name the last holder");
      await leases.release("t", next.token);
      same(await leases.lapsed("t"), undefined, "lapsed MUST NOT name a released lease");
    },
  },
  {
    name: "leases.held",
    promise: "lists the held leases, even those of tasks without a checkpoint",
    about: "leases",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const held = async () => {
        const found: HeldTask[] = [];
        for await (const lease of requireLeases(adapter).held()) found.push(lease);
        return found.toSorted((a, b) => (a.taskId < b.taskId ? -1 : 1));
      };
      same(await held(), [], "held MUST list nothing before a claim");
      const long = "x".repeat(512);
      const names = ["expired", "released", "saved", "a/../b", long].toSorted();
      await adapter.append(draft("saved", "c1"));
      await adapter.append(draft("free", "c1"));
      for (const taskId of names) await claimed(adapter, taskId, taskId === "expired" ? SHORT_MS : LONG_MS);
      await requireLeases(adapter).release("released", 1);
      await untilFree(requireLeases(adapter), "expired");
      adapter = await store.carryOn(adapter);
      const found = await held();
      same(
        found.map(({ taskId, holder, token }) => [taskId, holder, token]),
        names.filter((name) => name !== "expired" && name !== "released").map((name) => [name, "holder", 1]),
        "held MUST list exactly the leases that processes hold",
      );
      for (const { remainingMs } of found) {
        holds(
          remainingMs > 0 && remainingMs <= LONG_MS,
          `held MUST tell how long each lease still lasts: ${remainingMs}`,
        );
      }
    },
  },
  {
    name: "leases.forced",
    promise: "takes a task from its holder by force, and refuses later writes of the former holder",
    about: "leases",
    async run(store) {
      const adapter = await store.open();
      const leases = requireLeases(adapter);
      const { token } = await claimed(adapter, "t");
      const forced = await leases.claim("t", "forcing", LONG_MS, { force: true });
      same([forced.isGranted, forced.token], [true, token + 1], "a forced claim MUST be granted, under the next token");
      same((await leases.current("t"))?.holder, "forcing", "the caller of a forced claim MUST hold the lease");
      same(await leases.renew("t", token, LONG_MS), false, "the former holder's lease MUST NOT be renewed");
      await refused(
        "LEASE_LOST",
        adapter.append(draft("t", "late"), { fencingToken: token }),
        "a write of the former holder MUST be refused",
      );
      same(
        (await leases.claim("t", "third", LONG_MS)).isGranted,
        false,
        "a claim without force MUST be refused while the forced lease is held",
      );
      same(
        (await leases.claim("u", "forcing", LONG_MS, { force: true })).token,
        1,
        "a forced claim of a free task MUST also be granted",
      );
      await expectStored(adapter, []);
    },
  },
  {
    name: "leases.many-processes",
    promise: "grants a task to one of many processes that claim it at once",
    about: "leases",
    needs: "multiProcess",
    async run(store) {
      const others = await Promise.all(Array.from({ length: 6 }, () => store.elsewhere()));
      for (let round = 1; round <= 10; round++) {
        const claims = await Promise.all(
          others.map(({ leases }, index) => leases.claim("t", `holder-${index}`, LONG_MS)),
        );
        const won = claims.filter(({ isGranted }) => isGranted);
        same(won.length, 1, `one of 6 claims MUST be granted; these were: ${show(won)}`);
        same(won[0]?.token, round, "the granted claim MUST have the next token");
        const [first] = others;
        await first?.leases.release("t", round);
      }
    },
  },
  {
    name: "leases.stopped",
    promise: "refuses the writes of a process that was stopped for longer than its lease and then continued",
    about: "leases",
    needs: "multiProcess",
    async run(store) {
      const [here, stopped] = [await store.open(), await store.elsewhere()];
      const { token } = await claimed(stopped, "t");
      await stopped.append(draft("t", "before"), { fencingToken: token });
      await requireLeases(stopped).renew("t", token, SHORT_MS);
      stopped.pause();
      const condition = { fencingToken: token };
      const late = [
        stopped.append(draft("t", "late"), condition),
        stopped.setStatus("t", "before", { status: "paused" }, condition),
        stopped.remove("t", ["before"], condition),
      ].map((write) => refused("LEASE_LOST", write, "a write under the old token MUST be refused"));
      await untilFree(requireLeases(here), "t");
      const next = await claimed(here, "t");
      stopped.continue();
      await Promise.all(late);
      await here.append(draft("t", "after"), { fencingToken: next.token });
      same(
        await listIds(here.list({ taskId: "t", order: "oldest" })),
        ["before", "after"],
        "a write under the old token MUST store nothing",
      );
    },
  },
  {
    name: "leases.survives-kill",
    promise: "keeps a granted claim through a kill, and frees it when it expires",
    about: "leases",
    needs: "durable",
    async run(store) {
      for (const token of [1, 2]) {
        const other = await store.elsewhere();
        await other.dieAfter({ method: "claim", args: ["t", "killed", SHORT_MS] });
        await withOpen(store, async (adapter) => {
          const leases = requireLeases(adapter);
          await untilFree(leases, "t");
          const claim = await leases.claim("t", "next", LONG_MS);
          same([claim.isGranted, claim.token], [true, 2 * token], "the next claim MUST get the next token");
          await leases.release("t", claim.token);
        });
      }
    },
  },
];

async function claimed(adapter: StorageAdapter, taskId: string, ttlMs = LONG_MS): Promise<LeaseClaim> {
  const claim = await requireLeases(adapter).claim(taskId, "holder", ttlMs);
  same(claim.isGranted, true, "a claim of a free task MUST be granted");
  return claim;
}
