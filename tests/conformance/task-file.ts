import { registerConformance } from "waymark/conformance";
import { tempFolder } from "../support/temp-folder.js";
import { type Part, runnerOf } from "./parts.js";

export function registerTaskFile(part: Part): void {
  registerConformance(runnerOf(part), {
    name: "task-file",
    module: new URL("./stores/task-file.js", import.meta.url),
    capabilities: { durable: true, multiProcess: true },
    offers: ["leases", "log", "maintenance", "queue", "replacePayload"],
    newLocation: tempFolder,
  });
}
