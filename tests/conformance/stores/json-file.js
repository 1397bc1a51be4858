import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { JsonFileAdapter } from "waymark/adapters/json-file";

export function open(location) {
  return new JsonFileAdapter({ path: location });
}

/** Damages a checkpoint's file, in which line one is the summary and line two the state. */
export function damage(location, taskId, id, part) {
  const path = pathOf(location, taskId, id);
  const text = readFileSync(path, "utf8");
  const lineTwo = text.indexOf("\n") + 1;
  if (part === "summary") truncateSync(path, Math.floor(lineTwo / 2));
  else if (part === "missing") truncateSync(path, lineTwo);
  else writeFileSync(path, text.slice(0, lineTwo) + text.slice(lineTwo).replace(/[0-9a-z](?=[^0-9a-z]*$)/, "X"));
}

function pathOf(location, taskId, id) {
  for (const entry of readdirSync(location, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || !entry.name.endsWith(".json")) continue;
    const text = readFileSync(path, "utf8");
    if (text.includes(`"taskId":${JSON.stringify(taskId)},"id":${JSON.stringify(id)},`)) return path;
  }
  throw new Error(`No file in ${location} holds checkpoint ${id} of ${taskId}.`);
}

/** Damages a record's line, which has the value at its end. */
export function damageRecord(location, taskId, sequence) {
  for (const folder of readdirSync(location).filter((name) => !name.startsWith("."))) {
    const path = join(location, folder, "log.jsonl");
    const lines = readFileSync(path, "utf8").split("\n");
    if (JSON.parse(lines[0]).taskId !== taskId) continue;
    const index = lines.findIndex((line) => line.includes(`"sequence":${sequence},`));
    lines[index] = changedState(lines[index]);
    writeFileSync(path, lines.join("\n"));
    return;
  }
  throw new Error(`No file in ${location} holds record ${sequence} of ${taskId}.`);
}

function changedState(line) {
  const valueAt = line.lastIndexOf('"value":');
  return line.slice(0, valueAt) + line.slice(valueAt).replace(/[0-9a-z](?=[^0-9a-z]*$)/, "X");
}
