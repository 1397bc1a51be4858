import { describe, expect, it } from "vitest";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { TaskFileAdapter } from "waymark/adapters/task-file";

describe("an option", () => {
  it.each<[string, () => unknown, string | RegExp]>([
    [
      "misspelled",
      () => new JsonFileAdapter({ path: "x", lockTimeoutMS: 1 } as never),
      /^JsonFileAdapterOptions has no "lockTimeoutMS"/,
    ],
    [
      "misspelled, of the other adapter",
      () => new TaskFileAdapter({ path: "x", adpot: () => ({}) } as never),
      /^TaskFileAdapterOptions has no "adpot"/,
    ],
    ["that isn't a function", () => new TaskFileAdapter({ path: "x", adopt: "x" as never }), "adopt"],
    ["that is missing, with all others", () => new JsonFileAdapter(undefined as never), "JsonFileAdapterOptions"],
    [
      "that is missing, with all others, of the other adapter",
      () => new TaskFileAdapter(undefined as never),
      "TaskFileAdapterOptions",
    ],
    ["that isn't a path", () => new JsonFileAdapter({ path: "a\0b" }), "path"],
  ])("%s is a TypeError that names it", (_which, make, culprit) => {
    expect(make).toThrow(TypeError);
    expect(make).toThrow(culprit);
  });
});
