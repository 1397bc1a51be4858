import { describe, expect, it } from "vitest";
import { gzip } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { defineConfig, type WaymarkConfig } from "waymark/config";
import { checkConfig } from "../../../config/config.js";

describe("defineConfig", () => {
  it("returns the configuration unchanged", () => {
    const config = { storage: "sqlite:x.db", retention: { keepLast: 3 }, transforms: [gzip()] };
    expect(defineConfig(config)).toBe(config);
    expect(defineConfig({ storage: new MemoryAdapter() }).storage).toBeInstanceOf(MemoryAdapter);
    expect(defineConfig({})).toEqual({});
  });

  it("refuses a misspelled part at compile time and at run time", () => {
    // @ts-expect-error it is called storage
    expect(() => defineConfig({ storag: "files:x" })).toThrow(/storag/);
  });

  it.each([
    [{ storage: 5 }, /^storage must be a URL such as "sqlite:.*", or an adapter\.$/],
    [{ storage: "sqlte:x.db" }, /No storage has the scheme "sqlte"/],
    [{ storage: "x.db" }, /it has no scheme/],
    [{ retention: "keepLast" }, /retention/],
    [{ retention: null }, /retention/],
    [{ retention: {} }, /at least one rule or limit/],
    [{ retention: { keepLast: 0 } }, /keepLast/],
    [{ transforms: gzip() }, /transforms/],
    [{ transforms: [gzip] }, /transform "gzip" must have/],
    [{ transforms: [{ name: "x" }] }, /encode and decode/],
    ["sqlite:x.db", /object/],
    [undefined, /object/],
  ])("refuses %j and names what is wrong", (config, message) => {
    expect(() => checkConfig("the file", config)).toThrow(message);
    expect(() => defineConfig(config as WaymarkConfig)).toThrow(message);
  });
});
