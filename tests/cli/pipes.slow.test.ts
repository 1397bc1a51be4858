import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { newPlace, WAYMARK } from "./waymark.js";

it("a reader that stops (| head) is no error", async () => {
  const { place, manager } = await newPlace();
  for (let n = 1; n <= 300; n++) await manager.save("t", { n, filler: "x".repeat(2000) });
  await manager.close();
  const command = (args: string) =>
    execFileSync("bash", ["-c", `set -o pipefail; "${process.execPath}" "${WAYMARK}" ${args} | head -n 1`], {
      cwd: place.cwd,
      env: { ...process.env, ...place.env },
      encoding: "utf8",
    });
  expect(command("export")).toContain('"header"');
  expect(command("list t --json").startsWith("[{")).toBe(true);
});
