import pg from "pg";
import { PostgresAdapter } from "waymark/adapters/postgres";

/** The location is the server's URL, a space, and the schema. */
export function open(location) {
  const [url, schema] = location.split(" ");
  return new PostgresAdapter({ url, schema });
}

export async function damage(location, taskId, id, part) {
  const change = { summary: "status = 'x'", payload: "body = substr(body, 2) || 'x'", missing: "body = NULL" }[part];
  await update(location, `checkpoints SET ${change} WHERE task_id = $1 AND id = $2`, [taskId, id]);
}

export async function damageRecord(location, taskId, sequence) {
  const change = "records SET body = substr(body, 2) || 'x' WHERE task_id = $1 AND sequence = $2";
  await update(location, change, [taskId, sequence]);
}

async function update(location, change, values) {
  const [url, schema] = location.split(" ");
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`UPDATE "${schema}".${change}`, values);
  await client.end();
}
