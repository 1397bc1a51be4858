import { expect, it } from "vitest";
import { partAtPath, searchState, typedPart, typedValue } from "../../../cli/src/ui/typed-values.js";

it("keeps every type apart", () => {
  const error = Object.assign(new RangeError("too far"), { stack: "at home", code: 7, cause: new Error("why") });
  (error.cause as Error).stack = "";
  const value = {
    plain: [null, true, 1.5, "text"],
    odd: [Number.NaN, -0, Number.POSITIVE_INFINITY, undefined, 10n ** 20n],
    date: new Date(0),
    noDate: new Date(Number.NaN),
    map: new Map<unknown, unknown>([[{ id: 1 }, new Set(["a"])]]),
    regexp: /a+/g,
    url: new URL("https://example.org/a"),
    bytes: new Uint16Array([1, 2]),
    buffer: new ArrayBuffer(3),
    error,
  };
  expect(JSON.parse(JSON.stringify(typedValue(value)))).toEqual([
    "object",
    [
      ["plain", ["array", [null, true, 1.5, "text"], 0]],
      [
        "odd",
        [
          "array",
          [
            ["number", "NaN"],
            ["number", "-0"],
            ["number", "Infinity"],
            ["undefined"],
            ["bigint", "100000000000000000000"],
          ],
          0,
        ],
      ],
      ["date", ["date", "1970-01-01T00:00:00.000Z"]],
      ["noDate", ["date", "Invalid Date"]],
      [
        "map",
        [
          "map",
          [
            [
              ["object", [["id", 1]], 0],
              ["set", ["a"], 0],
            ],
          ],
          0,
        ],
      ],
      ["regexp", ["regexp", "/a+/g"]],
      ["url", ["url", "https://example.org/a"]],
      ["bytes", ["bytes", "Uint16Array", 4, "AQACAA=="]],
      ["buffer", ["bytes", "ArrayBuffer", 3, "AAAA"]],
      [
        "error",
        [
          "error",
          [
            ["name", "RangeError"],
            ["message", "too far"],
            ["stack", "at home"],
            [
              "cause",
              [
                "error",
                [
                  ["name", "Error"],
                  ["message", "why"],
                  ["stack", ""],
                ],
                0,
              ],
            ],
            ["code", 7],
          ],
          0,
        ],
      ],
    ],
    0,
  ]);
});

it("keeps data that looks like a type, a key __proto__, and lone surrogates", () => {
  const value = JSON.parse('{"__proto__":["date","x"],"\\ud800":"\\udfff"}');
  expect(JSON.parse(JSON.stringify(typedValue(value)))).toEqual([
    "object",
    [
      ["__proto__", ["array", ["date", "x"], 0]],
      ["\ud800", "\udfff"],
    ],
    0,
  ]);
});

it("cuts long lists and texts, closes deep nodes, and returns the rest by path", () => {
  const items = Array.from({ length: 1_200 }, (_, n) => n);
  let deep: unknown = "bottom";
  for (let n = 0; n < 5_000; n += 1) deep = [deep];
  const state = { items, text: "x".repeat(5_000), deep };

  const typed = JSON.stringify(typedValue(state));
  expect(typed.length).toBeLessThan(6_000);
  expect(typed).toContain("499],700]");
  expect(typed).toContain('",5000]');
  expect(typed).toContain('["closed","array",1]');

  expect(typedPart(partAtPath(state, [0]).value, 500)).toEqual(["array", items.slice(500, 1_000), 200]);
  expect(typedPart(partAtPath(state, [1]).value)).toBe(state.text);
  expect(partAtPath(state, [2, ...Array.from({ length: 5_000 }, () => 0)]).value).toBe("bottom");
  expect(() => partAtPath(state, [0, 1_200])).toThrow("nothing at position 1200 of items");
});

it("sends a state of many small nodes in little text", () => {
  const wide = Array.from({ length: 500 }, (_, n) => ({ n, all: Array.from({ length: 100 }, () => ({ a: {} })) }));
  expect(JSON.stringify(typedValue({ wide })).length).toBeLessThan(60_000);
});

it("names the place as `waymark show --path` does", () => {
  const state = {
    messages: [{ "a key": new Map([["x.y", 1]]) }],
    odd: new Map<unknown, unknown>([[1, "one"]]),
    set: new Set(["in it"]),
  };
  expect(partAtPath(state, [0, 0, 0, 0])).toEqual({ value: 1, text: 'messages[0]["a key"]["x.y"]' });
  expect(partAtPath(state, [1, 0])).toEqual({ value: "one", text: "odd[0][1]" });
  expect(partAtPath(state, [2, 0]).text).toBe("set[0]");
  expect(partAtPath(state, []).text).toBe("");
});

it("finds text in keys and values, ignoring case", () => {
  const state = { Role: "user", list: [{ role: "x" }, new Map([["k", "A USER"]])], when: new Date(0), none: null };
  expect(searchState(state, "role").found.map(({ text, in: place }) => [text, place])).toEqual([
    ["Role", "key"],
    ["list[0].role", "key"],
  ]);
  expect(searchState(state, "user").found.map(({ text, path }) => [text, path])).toEqual([
    ["Role", [0]],
    ["list[1].k", [1, 1, 0]],
  ]);
  expect(searchState(state, "1970").found).toHaveLength(1);
  expect(searchState(state, "null").found).toHaveLength(1);
  const many = searchState({ many: Array.from({ length: 600 }, () => "same") }, "same");
  expect([many.found.length, many.isCut]).toEqual([500, true]);
});
