import { existsSync } from "node:fs";
import { tmpdir } from "node:os";

/**
 * Where the stores are that are crashed: memory, where there is such a disk. Syncing costs nothing there, and nothing
 * here depends on it: a kill leaves what the system has, synced or not, and what a power loss takes the model takes.
 */
export const PLACE = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
