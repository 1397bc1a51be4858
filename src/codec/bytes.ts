import { endianness } from "node:os";

/** A buffer's or a view's bytes in base64. Elements are little-endian on every machine. */
export function toBase64(source: ArrayBuffer | ArrayBufferView, elementSize: number, order = endianness()): string {
  const bytes = ArrayBuffer.isView(source)
    ? Buffer.from(source.buffer, source.byteOffset, source.byteLength)
    : Buffer.from(source);
  return (order === "BE" ? swapElements(Buffer.from(bytes), elementSize) : bytes).toString("base64");
}

/**
 * The bytes of a base64 text, in memory of their own.
 *
 * @returns `undefined` unless the text is exactly what {@link toBase64} writes for a whole number of elements.
 */
export function fromBase64(text: string, elementSize: number, order = endianness()): Buffer<ArrayBuffer> | undefined {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const byteLength = (text.length / 4) * 3 - padding;
  if (byteLength < 0 || !Number.isInteger(byteLength / elementSize)) return undefined;
  // `Buffer.from(text)` would put small results into Node's shared pool.
  const bytes = Buffer.from(new ArrayBuffer(byteLength));
  bytes.write(text, "base64");
  // Node's decoder skips invalid characters without an error. Encoding the result again detects them.
  if (bytes.toString("base64") !== text) return undefined;
  return order === "BE" ? swapElements(bytes, elementSize) : bytes;
}

function swapElements<Bytes extends Buffer>(bytes: Bytes, elementSize: number): Bytes {
  if (elementSize === 2) bytes.swap16();
  if (elementSize === 4) bytes.swap32();
  if (elementSize === 8) bytes.swap64();
  return bytes;
}
