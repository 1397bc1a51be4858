import { registerPendingWrites } from "./pending-writes.js";

for (const kind of ["json-file", "task-file", "postgres"] as const) registerPendingWrites(kind);
