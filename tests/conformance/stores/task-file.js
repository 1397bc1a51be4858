import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TaskFileAdapter } from "waymark/adapters/task-file";

export function open(location) {
  return new TaskFileAdapter({ path: location });
}

/** Damages a task's file, which has a line for each checkpoint with the state at its end. */
export function damage(location, taskId, id, part) {
  const start = `{"id":${JSON.stringify(id)},"taskId":${JSON.stringify(taskId)},`;
  // The quarantine's name begins with a dot; task folders' names don't.
  for (const folder of readdirSync(location).filter((name) => !name.startsWith("."))) {
    const path = join(location, folder, "checkpoints.json");
    const lines = readFileSync(path, "utf8").split("\n");
    const index = lines.findIndex((line) => line.startsWith(start));
    if (index === -1) continue;
    const change = { summary: firstHalf, payload: changedState, missing: withoutState }[part];
    lines[index] = change(lines[index]);
    writeFileSync(path, lines.join("\n"));
    return;
  }
  throw new Error(`No file in ${location} holds checkpoint ${id} of ${taskId}.`);
}

function firstHalf(line) {
  return line.slice(0, line.length / 2);
}

function withoutState(line) {
  const stateAt = line.lastIndexOf(', "state":');
  return line.slice(0, stateAt) + (line.endsWith(",") ? "}," : "}");
}

function changedState(line) {
  const stateAt = line.lastIndexOf('"state":');
  return line.slice(0, stateAt) + line.slice(stateAt).replace(/[0-9a-z](?=[^0-9a-z]*$)/, "X");
}

/** Damages a record's line, which has the value at its end. */
export function damageRecord(location, taskId, sequence) {
  for (const folder of readdirSync(location).filter((name) => !name.startsWith("."))) {
    const path = join(location, folder, "checkpoints.log.jsonl");
    const lines = readFileSync(path, "utf8").split("\n");
    if (JSON.parse(lines[0]).taskId !== taskId) continue;
    const index = lines.findIndex((line) => line.includes(`"sequence":${sequence},`));
    const valueAt = lines[index].lastIndexOf('"value":');
    lines[index] = lines[index].slice(0, valueAt) + lines[index].slice(valueAt).replace(/[0-9a-z](?=[^0-9a-z]*$)/, "X");
    writeFileSync(path, lines.join("\n"));
    return;
  }
  throw new Error(`No file in ${location} holds record ${sequence} of ${taskId}.`);
}
