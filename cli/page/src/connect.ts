import type { Session } from "../../src/ui/api.js";
import { Api, RefusedError } from "./api.js";

/** The token's place in this tab, and the channel on which tabs ask each other for it. */
const TOKEN = "waymark.token";
/** A tab in the background answers within this time. */
const WAIT_MS = 1000;

export interface Connected {
  readonly api: Api;
  readonly session: Session;
}

/**
 * Connects this tab with its server: by the address that `waymark ui` printed, by what the tab has kept, or by what
 * another tab knows. So a link opened in a new tab works, and the token is in no address and in no file.
 *
 * @throws {RefusedError} No tab has a valid token, or the server failed.
 * @throws {ConnectionLostError} Nobody answered.
 */
export async function connect(): Promise<Connected> {
  const own = takeToken();
  const first = own === undefined ? undefined : await sessionWith(own);
  if (first !== undefined) return first;
  const theirs = await tokenOfOtherTabs();
  const second = theirs === undefined ? undefined : await sessionWith(theirs);
  if (second === undefined) throw new RefusedError(NO_TOKEN);
  return second;
}

export const NO_TOKEN = {
  name: "Unauthorized",
  code: "TOKEN",
  message:
    'Open the address that "waymark ui" printed last: it has the token. Then other tabs of this browser get it from ' +
    "that one.",
  causes: [],
} as const;

/** Takes the token out of the address bar, so that it is in no history and in no screenshot. */
function takeToken(): string | undefined {
  const [, token, rest = ""] = /^#token=([\w-]+)(.*)$/.exec(location.hash) ?? [];
  if (token === undefined) return sessionStorage.getItem(TOKEN) ?? undefined;
  history.replaceState(null, "", `#${rest === "" ? "/tasks" : rest.replace(/^&/, "")}`);
  return token;
}

/** Keeps a token that is valid, and hands it to new tabs. `undefined`: the server doesn't take it. */
async function sessionWith(token: string): Promise<Connected | undefined> {
  const api = new Api(token);
  const session = await openSession(api);
  if (session === undefined) return undefined;
  sessionStorage.setItem(TOKEN, token);
  const channel = new BroadcastChannel(TOKEN);
  channel.addEventListener("message", ({ data }) => {
    if (data !== "who has it?") return;
    // The server may have been started anew since: then this token is of no use to others either.
    openSession(api).then(
      (isValid) => isValid && channel.postMessage({ token }),
      () => undefined,
    );
  });
  return { api, session };
}

async function openSession(api: Api): Promise<Session | undefined> {
  try {
    return await api.ask("session", {});
  } catch (error) {
    if (error instanceof RefusedError && error.info.code === NO_TOKEN.code) return undefined;
    throw error;
  }
}

function tokenOfOtherTabs(): Promise<string | undefined> {
  const channel = new BroadcastChannel(TOKEN);
  return new Promise<string | undefined>((resolve) => {
    setTimeout(resolve, WAIT_MS, undefined);
    channel.addEventListener("message", ({ data }) => {
      if (typeof data === "object" && data !== null && typeof data.token === "string") resolve(data.token);
    });
    channel.postMessage("who has it?");
  }).finally(() => channel.close());
}
