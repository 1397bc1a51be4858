/** Damages rows of a Waymark database. @param connect - Opens the database at a path. */
export function damagingRows(connect) {
  return {
    damage(location, taskId, id, part) {
      const database = connect(location);
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
    },

    damageRecord(location, taskId, sequence) {
      const database = connect(location);
      database
        .prepare("UPDATE waymark_records SET body = substr(body, 2) || 'x' WHERE task_id = ? AND sequence = ?")
        .run(taskId, sequence);
      database.close();
    },
  };
}
