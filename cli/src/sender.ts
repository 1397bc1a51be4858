import { hostname, userInfo } from "node:os";

/** Returns the default sender of an event: `ada@build-box`. */
export function sender(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // In a container, the user may have no name.
    return `${process.getuid?.() ?? "unknown"}@${hostname()}`;
  }
}
