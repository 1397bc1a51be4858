// Tests tables on a terminal: their number of rows, and their form on a narrow terminal.
import { describe, expect, it } from "vitest";
import { stopClock } from "../support/stopped-clock.js";
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

describe("tasks", () => {
  const LONG = `session/${"x".repeat(100)}`;
  const WHY = "The model answered with an error that takes more columns than this row has";

  async function withFailure(...others: string[]) {
    stopClock();
    const { manager, place } = await newPlace();
    await manager.save("build-42", 1, { label: "After the unit tests" });
    await manager.fail("build-42", new Error(WHY));
    await manager.enqueue("later", undefined, { dueAt: new Date("2999-12-01T09:00:00Z") });
    for (const taskId of others) await manager.save(taskId, 1);
    await manager.close();
    return place;
  }

  it("shows why in a wide terminal's row", async () => {
    const output = await shown(await withFailure(), 160, "tasks");
    expect(output).toMatch(/^TASK +CHECKPOINTS +STATUS +NEWEST +WHEN +WHY\n/);
    expect(output).toMatch(new RegExp(`^build-42 .* failed +After the unit tests .* ${WHY}$`, "m"));
    expect(output).toMatch(/^later .* scheduled .* waits until 2999-12-01 09:00:00 UTC$/m);
  });

  it("shows why below the row if the terminal is too narrow, and breaks no word", async () => {
    const lines = (await shown(await withFailure(), 70, "tasks")).split("\n");
    expect(lines).toEqual([
      expect.stringMatching(/^TASK +CHECKPOINTS +STATUS +NEWEST +WHEN$/),
      expect.stringMatching(/^build-42 +1 +failed +After the unit tests +just now$/),
      "  The model answered with an error that takes more columns than this",
      "  row has",
      expect.stringMatching(/^later +1 +scheduled +Enqueued +just now$/),
      "  waits until 2999-12-01 09:00:00 UTC",
      "",
    ]);
  });

  it("leaves out WHEN before it cuts a cell, and never cuts an id", async () => {
    const place = await withFailure("a-task-whose-id-is-long", LONG);
    const lines = (await shown(place, 80, "tasks")).split("\n");
    expect(lines[0]).toMatch(/^TASK +CHECKPOINTS +STATUS +NEWEST$/);
    expect(lines).toContainEqual(expect.stringMatching(/^build-42 .* failed +After the unit tests$/));
    expect(lines[lines.indexOf(LONG) + 1]).toMatch(/^ +1 +interrupted$/);
    expect(lines.join()).not.toContain("…");
  });

  it("isn't widened in a pipe by one long id", async () => {
    const { stdout } = await waymark(await withFailure(LONG), ["tasks"]);
    expect(stdout).toMatch(/^build-42 {2,12}1 /m);
    expect(stdout).toMatch(new RegExp(`^${LONG} +1 +interrupted .* no runner known$`, "m"));
  });
});

describe("a terminal of 40 columns", () => {
  it("shows a block for each row, with every cell whole, wrapped between words, and empty ones left out", async () => {
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
        "LABEL   After the unit tests, the linter",
        "        and the type check",
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
