import { z } from "zod";

/** One piece of a feature's work. */
export interface Workstream {
  /** Unique in its plan. */
  readonly id: string;
  /** A command line for `sh`; its first command that fails ends it. */
  readonly command: string;
  /** The ids of the workstreams that have to be completed before it starts. Default: none. */
  readonly dependsOn?: readonly string[] | undefined;
}

/** What a feature's run does. In a file, `dependsOn` may be written `depends_on` too. */
export interface OneshotPlan {
  readonly workstreams: readonly Workstream[];
}

/** What is wrong in a plan, and where: keys and indices from the top. */
export interface PlanComplaint {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** A workstream of a plan that has been checked. */
export interface CheckedWorkstream extends Workstream {
  readonly dependsOn: readonly string[];
}

/** A plan without faults, or its faults. */
export type PlanCheck =
  | { readonly workstreams: readonly CheckedWorkstream[] }
  | { readonly complaints: readonly PlanComplaint[] };

/** Checks a plan: its form first, then how its workstreams hang together. */
export function checkPlan(value: unknown): PlanCheck {
  const parsed = planSchema.safeParse(value);
  if (!parsed.success) return { complaints: parsed.error.issues.flatMap(formComplaints) };
  const { workstreams } = parsed.data;
  const entries = workstreams.map(({ id, command, depends_on, dependsOn }, index): PlanEntry => {
    const key = depends_on === undefined ? "dependsOn" : "depends_on";
    const needs = depends_on ?? dependsOn ?? [];
    return { id, command, dependsOn: needs, at: (n) => ["workstreams", index, key, n], index };
  });
  const complaints = [...repeated(entries), ...unknown(entries)];
  const all = complaints.length === 0 ? cycle(entries) : complaints;
  if (all.length > 0) return { complaints: all };
  return { workstreams: entries.map(({ id, command, dependsOn }) => ({ id, command, dependsOn })) };
}

interface PlanEntry extends CheckedWorkstream {
  readonly index: number;
  /** Where its n-th dependency stands. */
  readonly at: (n: number) => PropertyKey[];
}

const text = z.string({
  error: ({ input }) => {
    if (input === undefined) return "is missing";
    const isScalar = typeof input === "number" || typeof input === "boolean" || input === null;
    return isScalar ? `must be text: write it in quotes, "${String(input)}"` : "must be text";
  },
});

const idSchema = text.refine((id) => /^\P{Cc}+$/u.test(id) && id.trim() !== "" && id.isWellFormed(), {
  error: "must be text of one line, and not empty",
});

const idsSchema = z.array(idSchema, { error: "must be a list of ids" }).optional();

const planSchema = z.strictObject(
  {
    workstreams: z
      .array(
        z
          .strictObject(
            {
              id: idSchema,
              command: text
                .refine((command) => command.trim() !== "", "must not be empty")
                .refine((command) => !command.includes("\0"), "can't hold a NUL character: no command line can"),
              depends_on: idsSchema,
              dependsOn: idsSchema,
            },
            { error: formError('an object with "id", "command" and, if it depends on others, "depends_on"') },
          )
          .refine((workstream) => workstream.depends_on === undefined || workstream.dependsOn === undefined, {
            error: 'has both "depends_on" and "dependsOn": put them into one',
          }),
        { error: ({ input }) => (input === undefined ? "is missing" : "must be a list of workstreams") },
      )
      .min(1, "must not be empty: there would be nothing to do"),
  },
  { error: formError('an object with the list "workstreams"') },
);

/** For an object that is none; its unknown keys are told one by one, elsewhere. */
function formError(form: string) {
  return ({ code }: { readonly code?: string | undefined }) =>
    code === "unrecognized_keys" ? undefined : `must be ${form}`;
}

function formComplaints(issue: z.core.$ZodIssue): PlanComplaint[] {
  const { path, message } = issue;
  if (issue.code !== "unrecognized_keys") return [{ path, message: `${nameOf(path)} ${message}` }];
  const known = path.length === 0 ? "workstreams" : "id, command, depends_on";
  return issue.keys.map((key) => ({
    path: [...path, key],
    message: `${nameOf(path)} has ${JSON.stringify(key)}, which means nothing here. There are: ${known}`,
  }));
}

function repeated(entries: readonly PlanEntry[]): PlanComplaint[] {
  return entries.flatMap(({ id, index }) => {
    const first = entries.findIndex((other) => other.id === id);
    if (first === index) return [];
    const path = ["workstreams", index, "id"];
    return [{ path, message: `${nameOf(path)} ${JSON.stringify(id)} is the id of workstreams[${first}] already` }];
  });
}

function unknown(entries: readonly PlanEntry[]): PlanComplaint[] {
  const ids = new Set(entries.map(({ id }) => id));
  return entries.flatMap((entry) =>
    entry.dependsOn.flatMap((id, n) => {
      if (ids.has(id)) return [];
      return [
        {
          path: entry.at(n),
          message: `${JSON.stringify(entry.id)} depends on ${JSON.stringify(id)}, which the plan doesn't have`,
        },
      ];
    }),
  );
}

/** One cycle, where there is any. */
function cycle(entries: readonly PlanEntry[]): PlanComplaint[] {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const ended = new Set<string>();
  // A path of its own and no recursion: a chain may be longer than the stack is deep.
  for (const start of entries) {
    const path: { readonly entry: PlanEntry; next: number }[] = ended.has(start.id) ? [] : [{ entry: start, next: 0 }];
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const n = top.next++;
      const entry = byId.get(top.entry.dependsOn[n] ?? "");
      if (n >= top.entry.dependsOn.length) {
        ended.add(top.entry.id);
        path.pop();
      } else if (entry !== undefined && !ended.has(entry.id)) {
        const from = path.findIndex((step) => step.entry === entry);
        if (from !== -1) {
          const ids = [...path.slice(from).map((step) => step.entry.id), entry.id].map((id) => JSON.stringify(id));
          return [{ path: top.entry.at(n), message: `workstreams wait for each other: ${ids.join(" depends on ")}` }];
        }
        path.push({ entry, next: 0 });
      }
    }
  }
  return [];
}

/** `workstreams[2].command`; `the plan` for the whole. */
function nameOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return "the plan";
  return path.reduce<string>((name, key) => {
    if (typeof key === "number") return `${name}[${key}]`;
    return name === "" ? String(key) : `${name}.${String(key)}`;
  }, "");
}
