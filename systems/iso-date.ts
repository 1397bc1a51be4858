import { z } from "./zod.js";

/**
 * A `Date` in memory, ISO 8601 on disk. Reads any offset and any precision, as other programs write them. Writes UTC
 * with milliseconds.
 */
export const isoDate = z.codec(z.iso.datetime({ offset: true }), z.date(), {
  decode: (text) => new Date(text),
  encode: (date) => date.toISOString(),
});
