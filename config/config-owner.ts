import { lstat, stat } from "node:fs/promises";

/**
 * Refuses a file that another user may have put there for us to find: a configuration is a program, or names the storage
 * that is written to. It must belong to this user or to root; under sudo, the user who called it counts, too. Windows has
 * no user ids, so there every file is taken.
 *
 * @throws {Error} It belongs to somebody else.
 */
export async function assertOurs(path: string): Promise<void> {
  const self = process.geteuid?.();
  if (self === undefined) return;
  const caller = process.env["SUDO_UID"];
  const ours = new Set([0, self]);
  // Anybody else can set the variable without sudo.
  if (self === 0 && caller !== undefined && /^\d+$/.test(caller)) ours.add(Number(caller));
  // A stranger's link could lead to any program of ours.
  for (const { uid } of [await lstat(path), await stat(path)]) {
    if (ours.has(uid)) continue;
    throw new Error(
      `it belongs to another user (uid ${uid}). If you trust it, name it: --config of the command, file of openManager.`,
    );
  }
}
