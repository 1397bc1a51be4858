import { type CheckpointManagerOptions, encrypt, gzip } from "waymark";

/** The content of the stores in tests/fixtures/formats/version-1. Neither this file nor they are ever edited. */
export const VALUES = {
  nothing: undefined,
  numbers: [1.5, -0, Number.NaN, Number.POSITIVE_INFINITY, 12345678901234567890n],
  when: new Date("2026-11-24T00:00:00.000Z"),
  map: new Map<unknown, unknown>([["a", new Set([1, "two"])]]),
  bytes: new Uint8Array([0, 1, 254, 255]),
  text: 'NUL \0, a quote ", a line end \u2028, 漢字, 👍',
  $waymark: "a key of the user's own",
};

export const BYTES_OF_A_FILE = Uint8Array.from({ length: 300 }, (_, index) => index % 256);

/** A text of 40 KB, then 70 notes one after another. */
export const TURNS: readonly { readonly document: string; readonly notes: readonly string[] }[] = Array.from(
  { length: 71 },
  (_, turn) => ({
    document: Array.from({ length: 2000 }, (_line, line) => `line ${(line * 7919) % 2000} of it\n`).join(""),
    notes: Array.from({ length: turn }, (_note, note) => `Note ${note}, of turn ${note * 31}.`),
  }),
);

export const BRANCH = { goal: "try another way", steps: Array.from({ length: 200 }, (_, step) => `step ${step * 17}`) };

/** Transforms of the task `secret`. */
export const SECRET = {
  transforms: [gzip(), encrypt({ keys: { "2026": new Uint8Array(32).fill(7) }, current: "2026" })],
} satisfies Partial<CheckpointManagerOptions>;

/** States, the oldest first, by task. */
export const STORED: Readonly<Record<string, readonly unknown[]>> = {
  "build-42": [{ step: 1 }, { step: 3 }],
  "a/b: ü 漢 %2F~": [VALUES, BYTES_OF_A_FILE],
  secret: [{ token: "hidden ".repeat(300) }],
  turns: [...TURNS.slice(0, 40), { small: true }, ...TURNS.slice(40)],
  branch: [BRANCH, { ...BRANCH, goal: "and another" }],
};
