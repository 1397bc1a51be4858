import { z } from "zod";

/**
 * A `Date` in memory, ISO 8601 on disk. Read with any offset and any precision, as other programs and languages write
 * it; written in UTC with milliseconds.
 */
export const isoDate = z.codec(z.iso.datetime({ offset: true }), z.date(), {
  decode: (text) => new Date(text),
  encode: (date) => date.toISOString(),
});
