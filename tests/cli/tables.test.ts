// Tables on a terminal: how many rows they have, and how a narrow terminal shows them.
import { describe, expect, it } from "vitest";
import { newPlace, type Place, waymark } from "./waymark.js";

const shown = async (place: Place, columns: number, ...args: string[]) =>
  (await waymark({ ...place, env: { ...place.env, NO_COLOR: "1" } }, args, "", columns)).stdout;

describe("a long table", () => {
  async function ofThirty() {
    const { manager, place } = await newPlace();
    for (let n = 1; n <= 30; n++) await manager.save("build-42", n);
    for (let n = 1; n <= 29; n++) await manager.save(`task-${n}`, n);
    await manager.close();
    return place;
  }

  it.each([["list", "build-42"], ["tasks"], ["resume"]])(
    "of %s has 20 rows on a terminal, and counts the others",
    async (...command) => {
      const place = await ofThirty();
      const lines = (await shown(place, 120, ...command)).split("\n");
      expect(lines.slice(-2)).toEqual(["… 10 more; --limit 30 shows all", ""]);
      expect(lines).toHaveLength(1 + 20 + 1 + 1);
      for (const limit of ["25", "30", "100"]) {
        const limited = await shown(place, 120, ...command, "--limit", limit);
        expect(limited.trimEnd().split("\n")).toHaveLength(1 + Math.min(Number(limit), 30));
      }
    },
  );

  it.each([["list", "build-42"], ["tasks"], ["resume"]])("of %s is whole in a pipe and as JSON", async (...command) => {
    const place = await ofThirty();
    expect((await waymark(place, command)).stdout.trimEnd().split("\n")).toHaveLength(1 + 30);
    expect(JSON.parse(await shown(place, 120, ...command, "--json"))).toHaveLength(30);
  });
});

describe("a terminal of 40 columns", () => {
  it("shows a block for each row, with every cell whole and empty ones left out", async () => {
    const { manager, place } = await newPlace("sqlite:checkpoints.db", {
      clock: () => Date.UTC(2026, 10, 21, 10, 0, 5),
    });
    const label = "After the unit tests, the linter and the type check";
    const { id: first } = await manager.save("build-42", 1, { label });
    const { id: second } = await manager.save("build-42", 22, { stage: "deploy" });
    await manager.close();
    expect(await shown(place, 40, "list", "build-42", "--oldest")).toBe(
      [
        "SEQ     1",
        "SAVED   2026-11-21 10:00:05",
        "STATUS  running",
        `LABEL   ${label}`,
        "SIZE    1 B",
        `ID      ${first}`,
        "",
        "SEQ     2",
        "SAVED   2026-11-21 10:00:05",
        "STATUS  interrupted",
        "STAGE   deploy",
        "SIZE    2 B",
        `ID      ${second}`,
        "",
        "",
      ].join("\n"),
    );
  });

  it.each([["tasks"], ["resume"], ["prune", "--all", "--keep-last", "1", "--dry-run"]])(
    "cuts no cell of %s",
    async (...command) => {
      const { manager, place } = await newPlace();
      const taskId = "a/rather/long/name/of/a/task";
      for (const n of [1, 2]) await manager.save(taskId, n, { label: "After the unit tests" });
      await manager.close();
      const output = await shown(place, 40, ...command);
      expect(output).not.toContain("…");
      expect(output).toMatch(new RegExp(`^TASK +${taskId}$`, "m"));
      expect(output).toMatch(/^\S.* +After the unit tests$/m);
    },
  );

  it("shows a table that fits as a table", async () => {
    const { manager, place } = await newPlace();
    await manager.save("build-42", 1, { stage: "unit" });
    await manager.close();
    expect(await shown(place, 40, "stats")).toMatch(/^TASK +STAGE +CHECKPOINTS +STATES\nbuild-42 +unit +1 +1 B\n/);
  });
});
