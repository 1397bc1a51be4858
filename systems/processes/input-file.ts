import type { ReadStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nanoid } from "nanoid";

/**
 * The text as an open file that has no name any more, to be a process's stdin. A file and not a pipe: it is all there
 * before the process starts, so a command that outlives this process never works from half of it; one that doesn't
 * read it breaks nothing; and /dev/stdin can be opened, which Node's pipes (sockets) refuse.
 *
 * @returns A stream that stands for the open file, as the start of a process takes it. The caller destroys it then.
 */
export async function openInput(text: string): Promise<ReadStream> {
  const path = join(tmpdir(), `waymark-input-${nanoid()}`);
  try {
    const written = await open(path, "wx", 0o600);
    try {
      await written.writeFile(text);
    } finally {
      await written.close();
    }
    return (await open(path, "r")).createReadStream();
  } finally {
    await rm(path, { force: true });
  }
}
