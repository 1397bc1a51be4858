import { describe } from "vitest";
import { AGENTS } from "./agents.js";
import { PROGRAMS, STREAMS } from "./programs.js";
import { registerPrograms } from "./same-as-memory-saver.js";

describe.each(["sqlite", "postgres"] as const)("a program sees the same on %s as on MemorySaver", (kind) =>
  registerPrograms(kind, { ...PROGRAMS, ...STREAMS, ...AGENTS }),
);

// json-file keeps the same contract, and LangGraph's own suite runs on it.
describe("a program sees the same on task-file as on MemorySaver", () => registerPrograms("task-file", PROGRAMS));

describe("an agent sees the same on memory as on MemorySaver", () => registerPrograms("memory", AGENTS));
