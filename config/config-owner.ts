import { lstat, stat } from "node:fs/promises";

/**
 * Refuses a file that another user may have planted: a configuration is a program, or names the storage to write to.
 * The file must belong to this user or to root; under sudo, the user who called it also counts. Windows has no user
 * ids, so every file is accepted there.
 *
 * @throws {Error} The file belongs to another user.
 */
export async function assertOurs(path: string): Promise<void> {
  const self = process.geteuid?.();
  if (self === undefined) return;
  const caller = process.env["SUDO_UID"];
  const ours = new Set([0, self]);
  // Only root's variable counts: anybody else can set it without sudo.
  if (self === 0 && caller !== undefined && /^\d+$/.test(caller)) ours.add(Number(caller));
  // Checks the link too: another user's link could lead to any of our programs.
  for (const { uid } of [await lstat(path), await stat(path)]) {
    if (ours.has(uid)) continue;
    throw new Error(
      `it belongs to another user (uid ${uid}). If you trust it, name it: --config of the command, file of openManager.`,
    );
  }
}
