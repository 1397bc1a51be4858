import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { LiveQueries, Queries } from "../../src/ui/api.js";
import type { ErrorInfo } from "../../src/ui/api-parts.js";
import { errorInfo, isAbort } from "./api.js";
import { usePage } from "./page.js";

export interface Loaded<Answer> {
  /** The last answer. While another request is being answered, this is still the previous request's answer. */
  readonly answer: Answer | undefined;
  readonly error: ErrorInfo | undefined;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

/**
 * Sends a query, and sends it again whenever the request changes. Aborts a request that is no longer wanted.
 *
 * @param isWanted - False: the query isn't sent yet.
 */
export function useQuery<Name extends keyof Queries>(
  name: Name,
  request: Queries[Name]["request"],
  isWanted = true,
): Loaded<Queries[Name]["answer"]> {
  const { api } = usePage();
  const [state, setState] = useState<Omit<Loaded<Queries[Name]["answer"]>, "reload">>({
    answer: undefined,
    error: undefined,
    isLoading: true,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(request);
  latest.current = request;
  const key = JSON.stringify(request);

  // The key changes with the request, and the round with each reload.
  useEffect(() => {
    if (!isWanted) return;
    const stopped = new AbortController();
    setState((before) => ({ ...before, isLoading: true }));
    void (async () => {
      try {
        const answer = await api.ask(name, latest.current, stopped.signal);
        if (!stopped.signal.aborted) setState({ answer, error: undefined, isLoading: false });
      } catch (error) {
        if (isAbort(error) || stopped.signal.aborted) return;
        setState({ answer: undefined, error: errorInfo(error), isLoading: false });
      }
    })();
    return () => stopped.abort();
  }, [api, name, key, round, isWanted]);

  const reload = useCallback(() => setRound((count) => count + 1), []);
  return { ...state, reload };
}

/** The pause before a query is sent again, as a multiple of the time that it took. */
const REST = 20;

/**
 * Returns a function that sends a query again after changes: at once, unless the server would spend more than a
 * twentieth of the time on the query.
 */
export function useRefresh({ isLoading, reload }: Pick<Loaded<unknown>, "isLoading" | "reload">): () => void {
  const startedMs = useRef(performance.now());
  const nextMs = useRef(0);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    const nowMs = performance.now();
    if (isLoading) startedMs.current = nowMs;
    else nextMs.current = nowMs + REST * (nowMs - startedMs.current);
  }, [isLoading]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    clearTimeout(timer.current);
    timer.current = setTimeout(reload, Math.max(0, nextMs.current - performance.now()));
  }, [reload]);
}

/** The pauses after failed attempts to connect. After more failures, the last pause is used. */
const PAUSES_MS = [500, 1000, 2000, 5000];

/**
 * Watches a query while the view is shown. Reconnects when the connection is lost, and shows the connection's state in
 * the frame.
 */
export function useWatch<Name extends "watch-tasks" | "watch-task">(
  name: Name,
  request: LiveQueries[Name]["request"],
  onMessage: (message: LiveQueries[Name]["answer"]) => void,
): void {
  const { api, setConnection } = usePage();
  const latest = useRef({ request, onMessage });
  latest.current = { request, onMessage };
  const key = JSON.stringify(request);

  // The key changes with the request.
  useEffect(() => {
    const stopped = new AbortController();
    const { signal } = stopped;
    void (async () => {
      for (let failures = 0; !signal.aborted; failures += 1) {
        try {
          for await (const message of api.watch(name, latest.current.request, signal)) {
            failures = 0;
            setConnection(message.kind === "failed" ? "lost" : "live");
            latest.current.onMessage(message);
          }
        } catch {
          // The page tries again after every error.
        }
        if (signal.aborted) return;
        setConnection("lost");
        await pause(PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)] ?? 0, signal);
      }
    })();
    return () => stopped.abort();
  }, [api, name, key, setConnection]);

  useEffect(() => {
    setConnection("connecting");
    return () => setConnection("none");
  }, [setConnection]);
}

/** Returns the current time, updated every `everyMs`. */
export function useNow(everyMs: number): number {
  const [nowMs, setNowMs] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNowMs(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return nowMs;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
