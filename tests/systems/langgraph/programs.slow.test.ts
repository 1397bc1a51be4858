import { describe } from "vitest";
import { AGENTS } from "./agents.js";
import { PROGRAMS, STREAMS } from "./programs.js";
import { registerPrograms } from "./same-as-memory-saver.js";

describe.each(["sqlite", "postgres"] as const)("a program sees the same on %s as on MemorySaver", (kind) =>
  registerPrograms(kind, { ...PROGRAMS, ...STREAMS, ...AGENTS }),
);

describe.each(["json-file", "task-file"] as const)("a program sees the same on %s as on MemorySaver", (kind) =>
  registerPrograms(kind, PROGRAMS),
);
