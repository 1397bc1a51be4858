// Adapters that each have one mistake, and the cases that must catch them.
import { join } from "node:path";
import { expect, it } from "vitest";
import { type ConformanceCase, conformanceCases, type OptionalMethod, runConformanceCase } from "waymark/conformance";
import { isTried } from "../crash/extent.js";
import { tempFolder } from "../support/temp-folder.js";

/** The cases that an adapter must pass or fail. Cases about processes run only for adapters that break them. */
const GROUPS = {
  core: ({ needs, about }: ConformanceCase) => needs === undefined && about === undefined,
  reopened: ({ replayed, about }: ConformanceCase) => replayed === true && about === undefined,
  damage: ({ name }: ConformanceCase) => name.startsWith("corrupt."),
  maintenance: ({ about }: ConformanceCase) => about === "maintenance",
  kills: ({ name, needs, about }: ConformanceCase) =>
    needs === "durable" && about === undefined && !name.startsWith("corrupt."),
  processes: ({ needs, about }: ConformanceCase) => needs === "multiProcess" && about === undefined,
  replacing: ({ about }: ConformanceCase) => about === "replacePayload",
  removing: ({ about }: ConformanceCase) => about === "removePrefix",
  leasing: ({ about }: ConformanceCase) => about === "leases",
  queueing: ({ about }: ConformanceCase) => about === "queue",
  logging: ({ needs, about }: ConformanceCase) => about === "log" && needs === undefined,
  loggingKilled: ({ needs, about }: ConformanceCase) => about === "log" && needs !== undefined,
  maintainingLogs: ({ name }: ConformanceCase) => /^(verify|repair)\..*-records$/.test(name),
};

const CAPABILITIES = {
  core: { durable: false, multiProcess: false },
  reopened: { durable: true, multiProcess: false },
  damage: { durable: true, multiProcess: false },
  maintenance: { durable: true, multiProcess: false },
  kills: { durable: true, multiProcess: false },
  processes: { durable: true, multiProcess: true },
  replacing: { durable: true, multiProcess: true },
  removing: { durable: false, multiProcess: false },
  leasing: { durable: true, multiProcess: true },
  queueing: { durable: true, multiProcess: true },
  logging: { durable: false, multiProcess: false },
  loggingKilled: { durable: true, multiProcess: true },
  maintainingLogs: { durable: true, multiProcess: false },
};

/** The optional parts that a case needs in addition to the part that it tests. */
const OFFERS: Partial<Record<keyof typeof GROUPS, readonly OptionalMethod[]>> = {
  logging: ["leases", "log", "queue"],
  loggingKilled: ["leases", "log", "queue"],
  maintainingLogs: ["log", "maintenance"],
};

/** The cases that must fail for an adapter: all of `caughtBy`, perhaps those of `andPerhaps`, and no others. */
export interface Verdict {
  readonly group: keyof typeof GROUPS;
  readonly caughtBy: readonly string[];
  /** Cases whose outcome depends on the order in which processes run. */
  readonly andPerhaps?: readonly string[];
}

/** The slowest cases. They run only for adapters that one of them must catch. */
const SLOW = [
  ...["read.many", "list.many", "tasks.many", "values.task-names", "values.ids", "values.large"],
  ...["replace.survives-kill", "replace.many-processes"],
];

/** Each module in the folder describes its mistake. The first case listed is the one about that mistake. */
export const VERDICTS: Readonly<Record<string, Verdict>> = {
  "begins-anywhere": { group: "core", caughtBy: ["append.sequence", "append.tasks-apart", "remove.ids", "remove.all"] },
  "breaks-call-order": { group: "core", caughtBy: ["append.call-order"] },
  "brings-back-what-was-removed": { group: "core", caughtBy: ["remove.stays-removed"] },
  "busy-while-iterating": {
    group: "core",
    caughtBy: [
      "read.early-break",
      "lifecycle.close-beside-iteration",
      "read.one-moment",
      "read.while-writing",
      "read.interleaved",
      "list.while-writing",
      "list.interleaved",
      "list.early-break",
      "tasks.while-writing",
    ],
  },
  "changes-status-in-two-steps": { group: "core", caughtBy: ["status.concurrent"] },
  "changes-what-is-not-there": { group: "core", caughtBy: ["status.nothing", "lifecycle.lazy"] },
  "checks-before-it-writes": { group: "core", caughtBy: ["append.one-winner"] },
  "closes-at-once": { group: "core", caughtBy: ["lifecycle.close-waits"] },
  "closes-only-once": {
    group: "core",
    caughtBy: [
      "lifecycle.close-idempotent",
      "lifecycle.closed",
      "lifecycle.close-waits",
      "lifecycle.close-beside-iteration",
    ],
  },
  "compares-the-digest-alone": { group: "core", caughtBy: ["append.id-taken"] },
  "counts-what-was-appended": {
    group: "core",
    caughtBy: [
      "tasks.newest",
      "append.id-free-again",
      "status.nothing",
      "status.condition",
      "values.ids",
      "append.replaces",
      "append.replaces-at-once",
    ],
  },
  "counts-what-was-asked": { group: "core", caughtBy: ["remove.ids", "lifecycle.lazy", "remove.concurrent"] },
  "cuts-large-payloads": { group: "core", caughtBy: ["values.large"] },
  "drops-due-times": {
    group: "core",
    caughtBy: [
      "values.due-time",
      "append.id-taken",
      "get.any",
      "read.whole",
      "list.summaries",
      "tasks.newest",
      "status.changes",
      "status.keeps-the-rest",
      "values.fields",
    ],
  },
  "drops-empty-text": { group: "core", caughtBy: ["values.fields", "values.text"] },
  "fetches-one-page": { group: "core", caughtBy: ["read.many", "list.many", "tasks.many"] },
  "folds-case": {
    group: "core",
    caughtBy: [
      "values.task-names",
      "read.nothing",
      "list.nothing",
      "tasks.order",
      "tasks.filters",
      "tasks.pages",
      "remove.all",
    ],
  },
  "forgets-to-seal": {
    group: "core",
    caughtBy: [
      "read.one-moment",
      "status.changes",
      "status.keeps-the-rest",
      "status.completed-stays",
      "status.concurrent",
      "values.due-time",
      "values.ids",
      "values.independent",
      "append.replaces-nothing",
    ],
  },
  "gets-from-any-task": { group: "core", caughtBy: ["get.nothing", "remove.ids", "remove.all"] },
  "gets-the-newest-few": {
    group: "core",
    caughtBy: [
      "get.any",
      "append.concurrent",
      "read.whole",
      "remove.independent",
      "values.fields",
      "values.ids",
      "values.text",
      "values.payloads",
      "append.replaces-nothing",
    ],
  },
  "ignores-conditions-of-changes": { group: "core", caughtBy: ["status.condition", "remove.condition"] },
  "ignores-expectations": {
    group: "core",
    caughtBy: [
      "append.expected-sequence",
      "append.atomic",
      "append.one-winner",
      "append.exact-sequence",
      "append.replaces",
    ],
  },
  "ignores-limit": { group: "core", caughtBy: ["list.filters", "list.pages", "list.many"] },
  "keeps-differences": { group: "core", caughtBy: ["remove.independent"] },
  "keeps-what-it-replaces": { group: "core", caughtBy: ["append.replaces"], andPerhaps: ["append.replaces-at-once"] },
  "leaves-completed": { group: "core", caughtBy: ["status.completed-stays", "status.concurrent"] },
  "lists-emptied-tasks": { group: "core", caughtBy: ["tasks.emptied"] },
  "lists-what-is-left": { group: "core", caughtBy: ["append.never-reuses", "tasks.newest"] },
  "lists-seals": {
    group: "core",
    caughtBy: [
      "list.summaries",
      "append.concurrent",
      "append.id-taken",
      "append.id-free-again",
      "append.atomic",
      "status.changes",
      "status.keeps-the-rest",
      "status.nothing",
      "status.condition",
      "remove.all",
      "remove.while-appending",
      "values.due-time",
      "values.fields",
      "values.task-names",
      "values.ids",
      "values.text",
      "values.payloads",
      "values.large",
      "values.independent",
      "values.frozen-draft",
      "append.replaces",
      "append.replaces-nothing",
    ],
  },
  "loses-what-comes-at-once": {
    group: "core",
    caughtBy: [
      "append.concurrent",
      "append.call-order",
      "read.many",
      "list.many",
      "remove.while-appending",
      "values.ids",
      "values.large",
      "append.replaces-at-once",
    ],
  },
  "makes-its-folder-when-opened": { group: "core", caughtBy: ["lifecycle.lazy"] },
  "numbering-outlives-task": { group: "core", caughtBy: ["remove.all", "remove.while-appending"] },
  "numbers-all-tasks-together": {
    group: "core",
    caughtBy: ["append.tasks-apart", "append.atomic", "remove.ids", "remove.all", "remove.while-appending"],
  },
  "orders-by-clock": { group: "core", caughtBy: ["append.clock-is-not-order", "read.whole", "values.fields"] },
  "orders-by-utf16": { group: "core", caughtBy: ["tasks.order", "tasks.filters", "tasks.pages", "values.task-names"] },
  "pages-by-offset": { group: "core", caughtBy: ["read.while-writing", "list.while-writing"] },
  "promises-too-much": { group: "core", caughtBy: ["capabilities.declared"] },
  "reads-without-filters": { group: "core", caughtBy: ["read.filters", "read.many"] },
  "reads-in-two-steps": { group: "core", caughtBy: ["read.one-moment"] },
  "refuses-repeats": { group: "core", caughtBy: ["append.idempotent", "append.replaces"] },
  "remembers-removed-ids": { group: "core", caughtBy: ["append.id-free-again"] },
  "removes-by-part": { group: "removing", caughtBy: ["remove.prefix", "remove.prefix-expected"] },
  "removes-what-changed": { group: "removing", caughtBy: ["remove.prefix-expected"] },
  "removes-by-prefix": { group: "core", caughtBy: ["remove.all", "remove.while-appending", "values.task-names"] },
  "removes-what-comes-later": { group: "core", caughtBy: ["remove.while-appending"] },
  "replaces-milestones": { group: "core", caughtBy: ["append.replaces-nothing"] },
  "reuses-sequences": {
    group: "core",
    caughtBy: [
      "append.never-reuses",
      "append.expected-sequence",
      "append.exact-sequence",
      "append.replaces",
      "tasks.newest",
    ],
  },
  "shares-values": { group: "core", caughtBy: ["values.independent"] },
  "shares-with-what-goes": { group: "core", caughtBy: ["append.shares-with"] },
  "skips-by-number": { group: "core", caughtBy: ["read.pages", "list.pages"] },
  "splits-at-line-separators": {
    group: "core",
    caughtBy: ["values.payloads", "values.task-names", "values.ids", "values.text"],
  },
  "stores-what-it-refuses": {
    group: "core",
    caughtBy: [
      "append.atomic",
      "append.expected-sequence",
      "append.one-winner",
      "append.exact-sequence",
      "append.replaces",
    ],
  },
  "takes-an-id-for-a-word": { group: "core", caughtBy: ["remove.all-as-id"] },
  "takes-any-digest": { group: "core", caughtBy: ["append.id-taken"] },
  "takes-prefix-for-a-pattern": { group: "core", caughtBy: ["tasks.filters"] },
  "trips-over-its-close": { group: "core", caughtBy: ["lifecycle.close-beside-iteration"] },
  "works-after-close": { group: "core", caughtBy: ["lifecycle.closed"] },
  "writes-on-the-draft": { group: "core", caughtBy: ["values.frozen-draft"] },
  "forgets-its-numbering": { group: "reopened", caughtBy: ["append.never-reuses", "tasks.newest"] },
  "copies-damage": { group: "damage", caughtBy: ["corrupt.shares-with"] },
  "filters-damage-away": { group: "damage", caughtBy: ["corrupt.any-filter"] },
  "hides-damage": {
    group: "damage",
    caughtBy: [
      "corrupt.reported",
      "corrupt.any-filter",
      "corrupt.tasks",
      "corrupt.nothing-intact",
      "corrupt.untouched",
      "corrupt.id-taken",
      "corrupt.not-laundered",
    ],
  },
  "launders-damage": { group: "damage", caughtBy: ["corrupt.not-laundered"] },
  "looks-at-headers-alone": { group: "damage", caughtBy: ["corrupt.id-taken"] },
  "loses-what-has-no-payload": {
    group: "damage",
    caughtBy: [
      "corrupt.reported",
      "corrupt.nothing-intact",
      "corrupt.untouched",
      "corrupt.not-laundered",
      "corrupt.id-taken",
    ],
  },
  "spares-damage": { group: "damage", caughtBy: ["corrupt.removed-with-task"] },
  "stops-at-damage": {
    group: "damage",
    caughtBy: [
      "corrupt.reported",
      "corrupt.any-filter",
      "corrupt.tasks",
      "corrupt.nothing-intact",
      "corrupt.untouched",
    ],
  },
  "writes-over-damage": { group: "damage", caughtBy: ["corrupt.untouched"] },
  "cries-wolf": { group: "maintenance", caughtBy: ["verify.quiet", "repair.moves"] },
  "finds-summaries-only": { group: "maintenance", caughtBy: ["verify.finds"] },
  "repairs-in-a-dry-run": { group: "maintenance", caughtBy: ["repair.dry-run"] },
  "repairs-on-and-on": { group: "maintenance", caughtBy: ["repair.stops"] },
  "repairs-one-at-a-time": {
    group: "maintenance",
    caughtBy: ["repair.moves", "repair.dry-run", "repair.stops"],
  },
  "repairs-the-numbering-away": { group: "maintenance", caughtBy: ["repair.keeps-numbering"] },
  "acknowledges-early": {
    group: "kills",
    caughtBy: [
      "append.survives-kill",
      "append.killed-midway",
      "append.killed-at-first",
      "status.survives-kill",
      "remove.survives-kill",
      "append.replaces-killed",
    ],
  },
  "loses-the-last-write": {
    group: "kills",
    caughtBy: [
      "lifecycle.reopened",
      "append.survives-kill",
      "append.killed-midway",
      "append.killed-at-first",
      "status.survives-kill",
      "remove.survives-kill",
      "append.replaces-killed",
    ],
  },
  "leaves-what-a-kill-left": { group: "kills", caughtBy: ["append.replaces-killed"] },
  "makes-its-store-in-two-steps": { group: "kills", caughtBy: ["append.killed-at-first"] },
  "never-frees-a-dead-lock": {
    group: "kills",
    caughtBy: ["append.killed-midway", "append.killed-at-first", "status.survives-kill", "remove.survives-kill"],
    // This happens if the kill comes while the lock is held.
    andPerhaps: ["append.replaces-killed"],
  },
  "writes-in-two-steps": { group: "kills", caughtBy: ["append.killed-midway", "append.killed-at-first"] },
  "a-store-for-each-process": {
    group: "processes",
    caughtBy: [
      "append.many-processes",
      "append.one-winner-anywhere",
      "append.one-id-anywhere",
      "processes.see-each-other",
      "processes.status-and-remove",
      "processes.remove-while-appending",
    ],
  },
  "locks-its-own-process-only": { group: "processes", caughtBy: ["append.one-winner-anywhere"] },
  "numbers-for-itself": {
    group: "processes",
    caughtBy: ["append.many-processes", "processes.see-each-other"],
    andPerhaps: [
      "append.one-winner-anywhere",
      "append.one-id-anywhere",
      "processes.remove-while-appending",
      "processes.killed-beside",
      "processes.read-while-writing",
      "processes.status-and-remove",
    ],
  },
  "refuses-after-a-death": { group: "processes", caughtBy: ["processes.killed-beside"] },
  "remembers-what-it-read": { group: "processes", caughtBy: ["processes.see-each-other"] },
  "takes-removed-for-damaged": { group: "processes", caughtBy: ["processes.read-while-writing"] },
  "leaves-the-former-seal": {
    group: "replacing",
    caughtBy: ["replace.changes", "replace.keeps-the-rest", "replace.concurrent", "replace.one-moment"],
  },
  "reads-the-payload-later": { group: "replacing", caughtBy: ["replace.one-moment"] },
  "replaces-by-appending": {
    group: "replacing",
    caughtBy: ["replace.keeps-the-rest", "replace.changes", "replace.one-moment"],
    andPerhaps: ["replace.concurrent"],
  },
  "replaces-any-payload": { group: "replacing", caughtBy: ["replace.nothing", "replace.concurrent"] },
  "keeps-the-callers-bytes": { group: "replacing", caughtBy: ["replace.independent"] },
  "compares-before-it-replaces": { group: "replacing", caughtBy: ["replace.concurrent"] },
  "replaces-after-close": { group: "replacing", caughtBy: ["replace.closed"] },
  "launders-what-it-replaces": { group: "replacing", caughtBy: ["replace.not-laundered"] },
  "replaces-in-two-steps": { group: "replacing", caughtBy: ["replace.survives-kill"] },
  "replaces-for-its-own-process": { group: "replacing", caughtBy: ["replace.many-processes"] },
  "leases-to-everybody": {
    group: "leasing",
    caughtBy: ["leases.one-holder", "leases.many-processes", "leases.forced"],
  },
  "begins-tokens-anew": { group: "leasing", caughtBy: ["leases.tokens-grow"] },
  "ignores-the-token": {
    group: "leasing",
    caughtBy: ["leases.fencing", "leases.expiry", "leases.stopped", "leases.forced"],
  },
  "checks-the-lease-first": { group: "leasing", caughtBy: ["leases.one-step", "leases.repeats"] },
  "fences-repeats": { group: "leasing", caughtBy: ["leases.repeats"] },
  "renews-what-has-expired": { group: "leasing", caughtBy: ["leases.expiry", "leases.forced"] },
  "lists-tasks-for-leases": { group: "leasing", caughtBy: ["leases.held"] },
  "takes-released-for-lapsed": { group: "leasing", caughtBy: ["leases.lapsed"] },
  "leases-in-its-own-memory": {
    group: "leasing",
    caughtBy: ["leases.survives-kill", "leases.many-processes", "leases.stopped", "leases.repeats"],
  },
  "never-forces": { group: "leasing", caughtBy: ["leases.forced"] },
  "works-for-any-prefix": { group: "queueing", caughtBy: ["due.only-due"] },
  "decides-by-metadata": { group: "queueing", caughtBy: ["due.only-due"] },
  "decides-by-the-oldest": { group: "queueing", caughtBy: ["due.changes"] },
  "gives-the-latest-first": { group: "queueing", caughtBy: ["due.order"] },
  "gives-one-more": { group: "queueing", caughtBy: ["due.limit"] },
  "excepts-nothing": { group: "queueing", caughtBy: ["due.except"] },
  "gives-what-it-did-not-get": {
    group: "queueing",
    caughtBy: ["due.one-holder"],
    andPerhaps: ["due.many-processes"],
  },
  "claims-in-its-own-memory": { group: "queueing", caughtBy: ["due.many-processes"] },
  "numbers-records-apart": {
    group: "logging",
    caughtBy: [
      "log.numbering",
      "log.batch",
      "log.read",
      "log.call-order",
      "log.conditions",
      "log.fencing",
      "log.event-ids",
      "log.exact-sequence",
      "log.remove",
      "log.remove-events",
      "log.replace",
      "log.records-only",
      "log.removed-with-task",
      "log.one-moment",
      "log.due",
      "log.lazy",
      "log.watch",
      "log.closed",
    ],
  },
  "stores-batches-one-by-one": { group: "logging", caughtBy: ["log.batch", "log.event-ids"] },
  "reads-any-kind": { group: "logging", caughtBy: ["log.read"] },
  "folds-names": { group: "logging", caughtBy: ["log.values"] },
  "delays-lazy-records": { group: "logging", caughtBy: ["log.call-order"] },
  "stores-records-before-it-checks": {
    group: "logging",
    caughtBy: ["log.with-checkpoint", "log.fencing", "log.event-ids"],
  },
  "stores-records-of-refused-changes": { group: "logging", caughtBy: ["log.with-status", "log.event-ids"] },
  "overlooks-events": { group: "logging", caughtBy: ["log.conditions"] },
  "fences-checkpoints-only": { group: "logging", caughtBy: ["log.fencing"] },
  "compares-event-ids-alone": {
    group: "logging",
    caughtBy: ["log.event-ids", "log.remove-events", "log.removed-with-task"],
  },
  "drops-repeated-events": { group: "logging", caughtBy: ["log.event-ids"] },
  "numbers-copied-records-anew": { group: "logging", caughtBy: ["log.exact-sequence"] },
  "removes-records-of-any-name": { group: "logging", caughtBy: ["log.remove"] },
  "forgets-emptied-events": { group: "logging", caughtBy: ["log.event-ids", "log.remove-events"] },
  "replaces-any-record": { group: "logging", caughtBy: ["log.replace"] },
  "hides-tasks-with-records-only": { group: "logging", caughtBy: ["log.records-only"] },
  "keeps-the-log": { group: "logging", caughtBy: ["log.removed-with-task", "log.remove-events"] },
  "keeps-the-callers-records": { group: "logging", caughtBy: ["log.independent"] },
  "merges-two-reads": { group: "logging", caughtBy: ["log.one-moment"] },
  "never-makes-due": { group: "logging", caughtBy: ["log.due"] },
  "forgets-times-of-events": { group: "logging", caughtBy: ["log.due"] },
  "holds-lazy-records-back": {
    group: "logging",
    caughtBy: ["log.lazy", "log.call-order", "log.independent"],
  },
  "never-tells-watchers": { group: "logging", caughtBy: ["log.watch"] },
  "never-tells-of-releases": { group: "logging", caughtBy: ["log.watch"] },
  "logs-after-close": { group: "logging", caughtBy: ["log.closed"] },
  "makes-a-log-when-read": {
    group: "logging",
    caughtBy: ["log.lazy-opening", "log.read", "log.removed-with-task"],
  },
  "acknowledges-records-early": {
    group: "loggingKilled",
    caughtBy: ["log.survives-kill", "log.killed-midway"],
    andPerhaps: ["log.damage", "log.many-processes", "log.one-event-anywhere"],
  },
  "stores-batches-in-two-steps": { group: "loggingKilled", caughtBy: ["log.killed-midway"] },
  "stores-records-before-the-checkpoint": { group: "loggingKilled", caughtBy: ["log.checkpoint-killed"] },
  "stores-records-after-the-status": { group: "loggingKilled", caughtBy: ["log.status-killed"] },
  "hides-damaged-records": { group: "loggingKilled", caughtBy: ["log.damage"] },
  "tells-of-its-own-changes-only": { group: "loggingKilled", caughtBy: ["log.watch-anywhere"] },
  "verifies-checkpoints-only": { group: "maintainingLogs", caughtBy: ["verify.finds-records"] },
  "repairs-in-words-only": { group: "maintainingLogs", caughtBy: ["repair.moves-records"] },
  "reads-records-and-checkpoints-apart": { group: "loggingKilled", caughtBy: ["log.many-processes"] },
  "knows-its-own-events-only": {
    group: "loggingKilled",
    caughtBy: ["log.one-event-anywhere", "log.survives-kill", "log.killed-midway"],
  },
  "waits-for-the-dead": { group: "queueing", caughtBy: ["due.unreleased"] },
};

export const FOLDER = new URL("../fixtures/broken-adapters/", import.meta.url);

/** Tests that the adapters of these groups are caught. */
export function testBrokenAdapters(): void {
  it.for(Object.entries(VERDICTS).filter((_, index) => isTried(index)))(
    "%s is caught",
    { timeout: 300_000 },
    async ([name, verdict]) => {
      const failed = await failedCases(name, verdict);
      expect(failed).toEqual(expect.arrayContaining([...verdict.caughtBy]));
      const expected = [...verdict.caughtBy, ...(verdict.andPerhaps ?? [])];
      expect(failed.filter((caseName) => !expected.includes(caseName))).toEqual([]);
    },
  );
}

async function failedCases(name: string, { group, caughtBy }: Verdict): Promise<string[]> {
  const harness = {
    name,
    module: new URL(`${name}.js`, FOLDER),
    capabilities: CAPABILITIES[group],
    offers: OFFERS[group],
    newLocation: async () => join(await tempFolder(), "store"),
  };
  const failed: string[] = [];
  for (const conformanceCase of conformanceCases.filter(GROUPS[group])) {
    if (SLOW.includes(conformanceCase.name) && !caughtBy.includes(conformanceCase.name)) continue;
    try {
      await runConformanceCase(conformanceCase, harness, group === "reopened" ? "reopened" : "fresh");
    } catch {
      failed.push(conformanceCase.name);
    }
  }
  return failed;
}
