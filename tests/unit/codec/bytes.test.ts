import { expect, it } from "vitest";
import { fromBase64, toBase64 } from "../../../src/codec/bytes.js";

it.each([1, 2, 4, 8])("stores elements of %i bytes alike on machines of either byte order", (size) => {
  const little = Buffer.from(Array.from({ length: 16 }, (_, i) => i));
  const big = Buffer.concat(
    Array.from({ length: 16 / size }, (_, i) => Buffer.from(little.subarray(i * size, (i + 1) * size)).reverse()),
  );
  const before = Buffer.from(big);

  expect(toBase64(big, size, "BE")).toBe(toBase64(little, size, "LE"));
  expect(big.equals(before)).toBe(true);
  expect(fromBase64(little.toString("base64"), size, "BE")?.equals(big)).toBe(true);
});
