import { hostname, userInfo } from "node:os";

/** The name under which an event is sent unless another one is given: `ada@build-box`. */
export function sender(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // In a container, the user may have no name.
    return `${process.getuid?.() ?? "unknown"}@${hostname()}`;
  }
}
