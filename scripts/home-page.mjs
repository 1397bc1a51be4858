// @ts-check
import { execFileSync } from "node:child_process";

/** Returns the address of the repository's page, from the clone's remote `origin`; `undefined` if there is none. */
export function homePage() {
  return homeOf(originUrl());
}

function originUrl() {
  try {
    return execFileSync("git", ["config", "remote.origin.url"], { encoding: "utf8" }).trim();
  } catch {
    return "";
  }
}

/**
 * Returns the address of the repository's page, without the user name or password that a remote may contain.
 *
 * @param {string} url - `https://host/owner/name.git`, or `git@host:owner/name.git`
 */
function homeOf(url) {
  const [, host, path] =
    /^(?:https:\/\/|ssh:\/\/|(?=[\w.-]+@[\w.-]+:))(?:[^@/]*@)?([\w.-]+)[:/](.+?)(?:\.git)?\/?$/.exec(url) ?? [];
  return host === undefined ? undefined : `https://${host}/${path}`;
}
