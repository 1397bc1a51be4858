import { expect, it } from "vitest";
import { newCheckpointId } from "../../../systems/phase-checkpoints/checkpoint-id.js";

it("a checkpoint's id is a nanoid that never begins like an option of a command", () => {
  const ids = Array.from({ length: 5000 }, newCheckpointId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^\w[\w-]{20}$/);
});
