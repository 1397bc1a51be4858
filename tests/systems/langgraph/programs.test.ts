import { describe } from "vitest";
import { AGENTS } from "./agents.js";
import { PROGRAMS, STREAMS } from "./programs.js";
import { registerPrograms } from "./same-as-memory-saver.js";

describe("a program sees on memory what it sees on MemorySaver", () => {
  registerPrograms("memory", { ...PROGRAMS, ...STREAMS, ...AGENTS });
});
