import { expect, it } from "vitest";
import { MemoryAdapter } from "waymark/adapters/memory";
import { WaymarkSaver } from "waymark/langgraph";
import { registerPendingWrites } from "./pending-writes.js";

registerPendingWrites("memory");
registerPendingWrites("sqlite");

it("a saver refuses a storage that keeps no log", () => {
  const storage = Object.assign(new MemoryAdapter(), { log: undefined });
  const made = () => new WaymarkSaver({ storage });
  expect(made).toThrow(expect.objectContaining({ code: "UNSUPPORTED_OPERATION" }));
});
