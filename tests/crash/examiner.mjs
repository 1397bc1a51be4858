// A process that opens one store after another, each left by another process: node examiner.mjs <adapter>. Each line of
// stdin is a JSON list of the store's folder and calls. The answers are the same as program.mjs's. After closing the
// store, the process prints its history, a JSON list of lines.
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { recordHistory } from "waymark/testing";
import { begin, printAnswers } from "./answers.mjs";
import { openAdapter } from "./open-adapter.mjs";

const [, , kind] = process.argv;

for await (const line of createInterface({ input: process.stdin })) {
  const [folder, calls] = JSON.parse(line);
  begin();
  const history = [];
  const write = (line) => history.push(line);
  const adapter = recordHistory(await openAdapter(kind, folder), { process: "examiner", write });
  await printAnswers(adapter, kind, folder, calls);
  await adapter.close();
  writeSync(1, `${JSON.stringify(history)}\n`);
}
