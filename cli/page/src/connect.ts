import type { Session } from "../../src/ui/api.js";
import { Api, RefusedError } from "./api.js";

/** The token's key in this tab's storage, and the name of the channel on which tabs ask each other for the token. */
const TOKEN = "waymark.token";
/** Enough time for a tab in the background to answer. */
const WAIT_MS = 1000;

export interface Connected {
  readonly api: Api;
  readonly session: Session;
}

/**
 * Connects this tab to its server, with the token from the address that `waymark ui` printed, from this tab's storage,
 * or from another tab. So a link opened in a new tab works, and the token stays out of addresses and files.
 *
 * @throws {RefusedError} No tab has a valid token, or the server failed.
 * @throws {ConnectionLostError} The server didn't answer.
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
    'Open the address that "waymark ui" printed last: it has the token. Other tabs of this browser then get the token ' +
    "from that tab.",
  causes: [],
} as const;

/** Takes the token out of the address bar, so that no history and no screenshot shows it. */
function takeToken(): string | undefined {
  const [, token, rest = ""] = /^#token=([\w-]+)(.*)$/.exec(location.hash) ?? [];
  if (token === undefined) return sessionStorage.getItem(TOKEN) ?? undefined;
  history.replaceState(null, "", `#${rest === "" ? "/tasks" : rest.replace(/^&/, "")}`);
  return token;
}

/** Keeps a valid token, and passes it to new tabs. Returns `undefined` if the server refuses the token. */
async function sessionWith(token: string): Promise<Connected | undefined> {
  const api = new Api(token);
  const session = await openSession(api);
  if (session === undefined) return undefined;
  sessionStorage.setItem(TOKEN, token);
  const channel = new BroadcastChannel(TOKEN);
  channel.addEventListener("message", ({ data }) => {
    if (data !== "who has it?") return;
    // If the server has been restarted since, the token is no longer valid, and other tabs can't use it either.
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
