import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openStorage } from "waymark/adapters";
import { nameLog, record, requireLog } from "../../../conformance/records.js";
import { tempFolder } from "../../support/temp-folder.js";

// Programs in JavaScript may pass anything.
const WRONG = [
  ["kind", "progress", 'it is "progress"'],
  ["createdAt", new Date(0), "must be a string"],
  ["name", 7, "must be a string"],
  ["recordKey", "\ud800", "lone surrogate"],
] as const;

describe.each(["memory", "files", "tasks", "sqlite"])("a draft on %s", (scheme) => {
  it.each(WRONG)("with a wrong %s is refused, and nothing is stored", async (field, value, message) => {
    const storage = openStorage(scheme === "memory" ? "memory:" : `${scheme}:${join(await tempFolder(), "store")}`);
    onTestFinished(() => storage.close());
    const log = requireLog(storage);
    await log.append("t", [record("first")]);
    const wrong = { ...record("wrong"), [field]: value };
    await expect(async () => log.append("t", [record("second"), wrong])).rejects.toThrow(message);
    expect(await nameLog(storage)).toEqual(["1 first"]);
    expect(await log.append("t", [record("next")])).toBe(2);
  });
});
