import { promisify } from "node:util";
import * as zlib from "node:zlib";
import { checkInteger, checkKeys, listKeys } from "../contract/arguments.js";
import { isError, PayloadTooLargeError } from "../contract/errors.js";
import { damagedPayload, nameOwner, type Transform, type TransformContext } from "./transforms.js";

const compress = promisify<zlib.InputType, zlib.ZlibOptions, Buffer>(zlib.gzip);
const expand = promisify<zlib.InputType, zlib.ZlibOptions, Buffer>(zlib.gunzip);

/**
 * Compresses payloads, off the main thread. Loading stops as soon as a payload expands beyond `maxBytes`. Saving
 * refuses larger states, so that everything saved with these options can be loaded with them.
 *
 * @throws {RangeError} An option is out of its range.
 * @throws {TypeError} An option is unknown.
 */
export function gzip(
  options: {
    /** From 0 (fast) to 9 (small); -1, the default, is zlib's own choice (6). */
    readonly level?: number | undefined;
    /** The size limit of an encoded state before compression, on save and on load. Default 256 MiB. */
    readonly maxBytes?: number | undefined;
  } = {},
): Transform {
  checkKeys("GzipOptions", options, listKeys<NonNullable<Parameters<typeof gzip>[0]>>({ level: true, maxBytes: true }));
  const { level = zlib.constants.Z_DEFAULT_COMPRESSION, maxBytes = 256 * 1024 * 1024 } = options;
  if (!Number.isInteger(level) || level < -1 || level > 9) {
    throw new RangeError(`gzip's level must be an integer from -1 to 9, not ${level}.`);
  }
  checkInteger("GzipOptions.maxBytes", maxBytes, 1);
  const tooLarge = (context: TransformContext, verb: string, next: string) =>
    new PayloadTooLargeError(
      `${nameOwner(context)} can't be ${verb}: its state has more than the ${maxBytes} bytes that gzip's maxBytes allows. ${next}`,
    );

  return {
    name: "gzip",
    ignoresOwner: true,
    async encode(body, context) {
      if (body.byteLength > maxBytes)
        throw tooLarge(context, "saved", "Nothing was stored; raise maxBytes, or save less.");
      return await compress(body, { level });
    },
    async decode(body, context) {
      try {
        return await expand(body, { maxOutputLength: maxBytes });
      } catch (cause) {
        if (isError(cause) && "code" in cause && cause.code === "ERR_BUFFER_TOO_LARGE") {
          throw tooLarge(context, "loaded", "It was left untouched; raise maxBytes to load it.");
        }
        throw damagedPayload(context, "its gzip data is incomplete or damaged", cause);
      }
    },
  };
}
