/** Encodes the bytes of a buffer or a view as base64. */
export function toBase64(source: ArrayBuffer | ArrayBufferView): string {
  const bytes = ArrayBuffer.isView(source)
    ? Buffer.from(source.buffer, source.byteOffset, source.byteLength)
    : Buffer.from(source);
  return bytes.toString("base64");
}

/**
 * Decodes a base64 text into bytes with their own memory.
 *
 * @returns `undefined` unless the text is exactly what {@link toBase64} writes for a whole number of elements.
 */
export function fromBase64(text: string, elementSize: number): Buffer<ArrayBuffer> | undefined {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const byteLength = (text.length / 4) * 3 - padding;
  if (byteLength < 0 || !Number.isInteger(byteLength / elementSize)) return undefined;
  // `Buffer.from(text)` would put small results into Node's shared pool.
  const bytes = Buffer.from(new ArrayBuffer(byteLength));
  bytes.write(text, "base64");
  // Node's decoder skips invalid characters without an error. Encoding the result again detects them.
  return bytes.toString("base64") === text ? bytes : undefined;
}
