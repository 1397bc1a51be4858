import { spawn } from "node:child_process";

/** Opens the URL in the user's browser. If there is none, nothing happens: the URL was printed too. */
export function openBrowser(url: string): void {
  const [command, ...args] = commandOn(process.platform, url);
  const child = spawn(command, args, { stdio: "ignore", detached: true });
  child.on("error", () => undefined);
  child.unref();
}

/** Returns the command that opens a URL on a platform. */
export function commandOn(platform: NodeJS.Platform, url: string): readonly [command: string, ...args: string[]] {
  if (platform === "darwin") return ["open", url];
  // In cmd, the first quoted word after `start` is a title.
  if (platform === "win32") return ["cmd", "/c", "start", '""', url.replaceAll("&", "^&")];
  return ["xdg-open", url];
}
