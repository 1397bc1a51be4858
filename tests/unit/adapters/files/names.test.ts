import { createHash } from "node:crypto";
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isHashedName, parseFileName, toFileName } from "../../../../adapters/files/names.js";
import { tempFolder } from "../../../support/temp-folder.js";

const hashOf = (id: string) => createHash("sha256").update(id).digest("hex");

describe("toFileName", () => {
  it.each([
    ["build-42", "build-42"],
    ["P1.M1.T1.S1", "P1.M1.T1.S1"],
    ["feature_x", "feature_x"],
    ["a/b", "a%2Fb"],
    ["a\\b", "a%5Cb"],
    ["../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"],
    [".", "%2E"],
    ["..", "%2E%2E"],
    ["...", "%2E.%2E"],
    [".hidden", "%2Ehidden"],
    ["ends.", "ends%2E"],
    ["50%", "50%25"],
    ["%2F", "%252F"],
    ["a~b", "a%7Eb"],
    ["with space", "with%20space"],
    ["naïve", "na%C3%AFve"],
    ["任务", "%E4%BB%BB%E5%8A%A1"],
    ["🙂", "%F0%9F%99%82"],
    ["a\u0000b", "a%00b"],
    ["new\nline", "new%0Aline"],
    ["C:", "C%3A"],
    ["CON", "%43ON"],
    ["con.json", "%63on.json"],
    ["nul", "%6Eul"],
    ["COM1", "%43OM1"],
    ["lpt9.txt", "%6Cpt9.txt"],
    ["console", "console"],
    ["COM10", "COM10"],
  ])("names %j %s", (id, name) => {
    expect(toFileName(id)).toBe(name);
    expect(parseFileName(name)).toBe(id);
  });

  it("cuts an id that is too long for a name, and adds its SHA-256", () => {
    const id = "x".repeat(181);
    expect(toFileName(id)).toBe(`${"x".repeat(100)}~${hashOf(id)}`);
    expect(toFileName("x".repeat(180))).toBe("x".repeat(180));
    expect(isHashedName(toFileName(id))).toBe(true);
    expect(parseFileName(toFileName(id))).toBeUndefined();
  });

  it("never cuts within an escaped byte", () => {
    for (const shift of [0, 1, 2]) {
      const id = `${"x".repeat(shift)}${"é".repeat(100)}`;
      expect(toFileName(id)).toMatch(/^x*(%[0-9A-F]{2})+~[0-9a-f]{64}$/);
    }
  });

  it("never leaves the folder, and never makes a name that a system changes", () => {
    fc.assert(
      fc.property(anyId(), (id) => {
        const name = toFileName(id);
        expect(dirname(join("/root", name))).toBe("/root");
        expect(name).toMatch(/^[A-Za-z0-9_%-][A-Za-z0-9._%~-]*$/);
        expect(name).not.toMatch(/\.$/);
        expect(name).not.toMatch(/^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i);
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(180);
      }),
    );
  });

  it("makes names that the disk accepts", async () => {
    const folder = await tempFolder();
    const ids = fc.sample(anyId(), 200);
    for (const id of ids) mkdirSync(join(folder, toFileName(id)), { recursive: true });
    expect(readdirSync(folder).toSorted()).toEqual([...new Set(ids.map(toFileName))].toSorted());
  });
});

describe("idOf", () => {
  it("restores every id that isn't hashed", () => {
    fc.assert(
      fc.property(anyId(), (id) => {
        const name = toFileName(id);
        expect(parseFileName(name)).toBe(isHashedName(name) ? undefined : id);
      }),
    );
  });

  it.each(["with space", "%2f", "%61", "%", "%FF", "CON", ".lock", "a~b", "ends.", "x".repeat(200), ""])(
    "refuses %j as an id's name",
    (name) => {
      expect(parseFileName(name)).toBeUndefined();
    },
  );
});

/** Ids of every kind, many of them similar. */
function anyId(): fc.Arbitrary<string> {
  return fc.oneof(
    fc.string({ minLength: 1, maxLength: 300, unit: "binary" }),
    fc.string({ minLength: 1, maxLength: 4, unit: fc.constantFrom(".", "%", "/", "\\", "~", "2", "F", "E", "a", "A") }),
    fc.constantFrom("con", "CON.txt", "nul.", "..", "../..", "a/b", "a%2Fb", "~", "é", "e\u0301"),
    fc.string({ minLength: 170, maxLength: 190, unit: fc.constantFrom("a", "é", "/") }),
  );
}
