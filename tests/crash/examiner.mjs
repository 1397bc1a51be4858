// A process that opens one store after another, each left by another process: node examiner.mjs <adapter>. Each line of
// stdin is a JSON list of the store's folder and calls. It answers as program.mjs does, with an empty line after the
// last answer, once it has closed the store.
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { begin, printAnswers } from "./answers.mjs";
import { openAdapter } from "./open-adapter.mjs";

const [, , kind] = process.argv;

for await (const line of createInterface({ input: process.stdin })) {
  const [folder, calls] = JSON.parse(line);
  begin();
  const adapter = await openAdapter(kind, folder);
  await printAnswers(adapter, kind, folder, calls);
  await adapter.close();
  writeSync(1, "\n");
}
