import { describe } from "vitest";
import { PROGRAMS, STREAMS } from "./programs.js";
import { registerPrograms } from "./same-as-memory-saver.js";

describe("a program sees the same on memory as on MemorySaver", () => {
  registerPrograms("memory", { ...PROGRAMS, ...STREAMS });
});
