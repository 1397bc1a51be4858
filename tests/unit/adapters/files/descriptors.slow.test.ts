import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { tempFolder } from "../../../support/temp-folder.js";

const program = fileURLToPath(new URL("../../../fixtures/files/save-at-once.mjs", import.meta.url));

it.skipIf(process.platform === "win32").each(["json-file", "task-file"])(
  "%s: concurrent saves wait for file descriptors if the process may open only few (skipped on Windows)",
  async (kind) => {
    const root = join(await tempFolder(), "store");
    const limited = ["-c", 'ulimit -n 64; exec "$0" "$@"', process.execPath, program, kind, root];
    const { stdout, stderr } = spawnSync("/bin/sh", limited, { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toEqual({ failures: [], tasks: 60 });
  },
);
