import { MAX_DELAY_MS } from "waymark/kit";
import { z } from "zod";

export const nonEmpty = z.string().min(1, "must not be empty");

export const callback = <Callback>() =>
  z.custom<Callback>((value) => typeof value === "function", "must be a function");

/** Returns the schema of a time that Node's timers can wait. */
export const milliseconds = (min: 0 | 1) => z.int().min(min).max(MAX_DELAY_MS);

/**
 * Returns the options with their defaults.
 *
 * @throws {TypeError} An option is missing, misspelled or out of range; the message names it.
 */
export function checkOptions<Checked>(name: string, options: unknown, schema: z.ZodType<Checked>): Checked {
  const { success, data, error } = schema.safeParse(options);
  if (success) return data;
  throw new TypeError(describeIssues(error, name));
}

/** Returns all issues on one line: `PrpExecutorOptions.coder: must be …; …`. */
export function describeIssues({ issues }: z.ZodError, ...name: readonly string[]): string {
  const texts = issues.map(({ path, message }) => [[...name, ...path].join("."), message].filter(Boolean).join(": "));
  return texts.join("; ");
}
