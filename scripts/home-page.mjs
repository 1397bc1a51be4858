// @ts-check
import { execFileSync } from "node:child_process";

/** The address of the repository's page, from the clone's remote `origin`; `undefined` without one. */
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
 * The address of the repository's page, without the user's name or password that a remote may contain.
 *
 * @param {string} url - `https://host/owner/name.git`, or `git@host:owner/name.git`
 */
function homeOf(url) {
  const [, host, path] =
    /^(?:https:\/\/|ssh:\/\/|(?=[\w.-]+@[\w.-]+:))(?:[^@/]*@)?([\w.-]+)[:/](.+?)(?:\.git)?\/?$/.exec(url) ?? [];
  return host === undefined ? undefined : `https://${host}/${path}`;
}
