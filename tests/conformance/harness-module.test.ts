import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type ConformanceHarness,
  conformanceCases,
  registerConformance,
  runConformanceCase,
} from "waymark/conformance";
import { tempFolder } from "../support/temp-folder.js";

const HARNESS: ConformanceHarness = {
  name: "durable",
  module: new URL("../fixtures/harness-without-damage.js", import.meta.url),
  capabilities: { durable: true, multiProcess: true },
  newLocation: tempFolder,
};

const refusedLocation = async () => join(await tempFolder(), "refused");

function runCase(name: string, harness: Partial<ConformanceHarness> = {}): Promise<void> {
  const conformanceCase = conformanceCases.find((one) => one.name === name);
  return runConformanceCase(conformanceCase!, { ...HARNESS, ...harness });
}

function titlesFor(capabilities: ConformanceHarness["capabilities"]): string[] {
  const titles: string[] = [];
  const runner = {
    describe: (_title: string, body: () => void) => body(),
    it: (title: string) => titles.push(title),
  };
  registerConformance(runner, { ...HARNESS, capabilities });
  return titles;
}

describe("the suite", () => {
  it("chooses cases only by the declared capabilities", () => {
    const core = titlesFor({ durable: false, multiProcess: false });
    const durable = titlesFor({ durable: true, multiProcess: false });
    const everything = titlesFor({ durable: true, multiProcess: true });
    expect(core).toHaveLength(conformanceCases.filter(({ needs, about }) => !needs && !about).length);
    expect(durable).toEqual(expect.arrayContaining(core));
    expect(everything).toEqual(expect.arrayContaining(durable));
    expect(everything.filter((title) => title.startsWith("processes."))).not.toHaveLength(0);
  });

  it("names the adapter's obligation if the adapter throws", async () => {
    await expect(runCase("get.any", { newLocation: refusedLocation })).rejects.toThrow(
      "get.any: an adapter returns any checkpoint of a task by its id, even after many newer ones; " +
        "here a call failed: This location is refused.",
    );
  });

  it("reports what is wrong with a corrupt record, and where it is", async () => {
    const module = new URL("../fixtures/broken-adapters/stops-at-damage.js", import.meta.url);
    const running = runCase("corrupt.any-filter", {
      module,
      newLocation: async () => join(await tempFolder(), "x.db"),
    });
    await expect(running).rejects.toThrow(
      /\n {2}corrupt: .*status.* \(.*x\.db, table waymark_checkpoints, number \d+\)\n/,
    );
  });

  it("reports why a store couldn't be opened in another process", async () => {
    const running = runCase("append.survives-kill", { newLocation: refusedLocation });
    await expect(running).rejects.toThrow(/This location is refused\./);
  });
});

describe("a harness's module", () => {
  it("must damage records if the adapter is durable", async () => {
    const obligation = /harness-without-damage\.js must export damage\(location, taskId, id, part\)/;
    await expect(runCase("corrupt.reported")).rejects.toThrow(obligation);
  });

  it("must export open", async () => {
    const module = new URL("../fixtures/broken-adapters/altered.js", import.meta.url);
    await expect(runCase("get.any", { module })).rejects.toThrow(/altered\.js must export a function open\(location\)/);
  });

  it("may be named by its path", async () => {
    await runCase("append.survives-kill", { module: "tests/fixtures/harness-without-damage.js" });
  });
});
