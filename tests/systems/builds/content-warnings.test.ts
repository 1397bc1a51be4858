import { describe, expect, it } from "vitest";
import { checkpoint, openBuilds } from "./support.js";

const KIB = 1024;

describe("a state with whole file contents", () => {
  it("is saved, with a warning that names the keys and their sizes", async () => {
    const { saveCheckpoint, getLatestCheckpoint, lines } = await openBuilds();
    const source = "x".repeat(20 * KIB);
    saveCheckpoint(
      checkpoint("c1", { tasks: [{ path: "a.ts" }, { source }], metadata: { "the readme": "é".repeat(50 * KIB) } }),
    );

    expect(getLatestCheckpoint("b")?.tasks[1]).toEqual({ source });
    expect(lines).toEqual([
      {
        level: "warn",
        message: expect.stringMatching(
          /^Checkpoint c1 of build "b" was saved with long texts: \$\.metadata\["the readme"\] \(100 KiB\), \$\.tasks\[1\]\.source \(20 KiB\)\. .*save the paths/,
        ),
        details: {
          buildId: "b",
          largeTexts: [
            { path: '$.metadata["the readme"]', bytes: 100 * KIB },
            { path: "$.tasks[1].source", bytes: 20 * KIB },
          ],
        },
      },
    ]);
  });

  it("is warned about once for each build and place", async () => {
    const { saveCheckpoint, lines } = await openBuilds();
    const [a, b] = ["a", "b"].map((text) => text.repeat(17 * KIB));
    for (const id of ["c1", "c2"]) saveCheckpoint(checkpoint(id, { tasks: [{ a }] }));
    expect(lines).toHaveLength(1);
    saveCheckpoint(checkpoint("c3", { tasks: [{ a }, { b }] }));
    saveCheckpoint(checkpoint("d1", { buildId: "b2", tasks: [{ a }] }));
    expect(lines.slice(1).map(({ details }) => details)).toEqual([
      { buildId: "b", largeTexts: [{ path: "$.tasks[1].b", bytes: 17 * KIB }] },
      { buildId: "b2", largeTexts: [{ path: "$.tasks[0].a", bytes: 17 * KIB }] },
    ]);
  });

  it("isn't warned about up to the limit, which is 16 KiB unless told", async () => {
    const { saveCheckpoint, path, lines } = await openBuilds();
    saveCheckpoint(checkpoint("c1", { tasks: ["x".repeat(16 * KIB)] }));
    expect(lines).toEqual([]);
    const strict = await openBuilds({ path, warnAboveBytes: 3 });
    strict.saveCheckpoint({ id: "c2", buildId: "b", tasks: ["four", "six", "ééé"], currentPhase: 1 });
    expect(strict.lines).toMatchObject([
      {
        details: {
          largeTexts: [
            { path: "$.tasks[2]", bytes: 6 },
            { path: "$.tasks[0]", bytes: 4 },
          ],
        },
      },
    ]);
  });

  it("of many places names the largest", async () => {
    const { saveCheckpoint, lines } = await openBuilds({ warnAboveBytes: 10 });
    saveCheckpoint(checkpoint("c1", { tasks: Array.from({ length: 8 }, (_, i) => "x".repeat(20 + i)) }));
    expect(lines[0]?.message).toMatch(/\$\.tasks\[7\] \(27 bytes\), .*\$\.tasks\[3\] \(23 bytes\) and 3 more\./);
  });

  it("is warned about in the list of builds too", async () => {
    const { saveBuildState, lines } = await openBuilds();
    const state = { buildId: "b", prdFile: "p", startTime: "s", tasks: [], completedTasks: [], failedTasks: [] };
    saveBuildState({ ...state, currentPhase: 1, logs: ["x".repeat(17 * KIB)] });
    expect(lines[0]?.message).toMatch(/^The state of build "b" was saved with long texts: \$\.logs\[0\] \(17 KiB\)/);
  });
});
