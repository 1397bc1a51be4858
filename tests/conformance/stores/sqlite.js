import Database from "better-sqlite3";
import { SqliteAdapter } from "waymark/adapters/sqlite";

export function open(location) {
  return new SqliteAdapter({ path: location });
}

export function damage(location, taskId, id, part) {
  const database = new Database(location);
  const { number } = database
    .prepare("SELECT number FROM waymark_checkpoints WHERE task_id = ? AND id = ?")
    .get(taskId, id);
  if (part === "summary") {
    database.prepare("UPDATE waymark_checkpoints SET status = 'x' WHERE number = ?").run(number);
  } else if (part === "missing") {
    database.prepare("DELETE FROM waymark_payloads WHERE number = ?").run(number);
  } else {
    database.prepare("UPDATE waymark_payloads SET body = substr(body, 2) || 'x' WHERE number = ?").run(number);
  }
  database.close();
}

export function damageRecord(location, taskId, sequence) {
  const database = new Database(location);
  database
    .prepare("UPDATE waymark_records SET body = substr(body, 2) || 'x' WHERE task_id = ? AND sequence = ?")
    .run(taskId, sequence);
  database.close();
}
