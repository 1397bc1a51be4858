import { describe, expect, it } from "vitest";
import { type ConformanceHarness, registerConformance } from "waymark/conformance";

const harness = {
  name: "x",
  module: "./x.js",
  capabilities: { durable: false, multiProcess: false },
  newLocation: () => "x",
};
const runner = { describe: () => undefined, it: () => undefined };

describe("a harness", () => {
  it.each<[object, string]>([
    [{ ...harness, capabilites: {} }, "capabilites"],
    [{ ...harness, capabilities: {} }, "durable"],
    [{ ...harness, capabilities: { durabel: true, multiProcess: true } }, "durabel"],
    [{ ...harness, capabilities: undefined }, "capabilities"],
    [{ ...harness, module: 7 }, "module"],
    [{ ...harness, newLocation: "x" }, "newLocation"],
  ])("with a mistake is refused by name, so that no case is silently left out: %j", (wrong, culprit) => {
    const register = () => registerConformance(runner, wrong as ConformanceHarness);
    expect(register).toThrow(TypeError);
    expect(register).toThrow(culprit);
  });
});
