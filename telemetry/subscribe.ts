import { subscribe, type TracingChannel, unsubscribe } from "node:diagnostics_channel";

/** What to do when a traced call starts, and when it has ended. */
interface CallListener<Context> {
  start?(context: Context): void;
  ended(context: Context): void;
}

/** Subscribes to a tracing channel. Returns a function that unsubscribes. */
export function onCalls<Context extends object>(
  channel: TracingChannel<unknown, Context>,
  { start = () => undefined, ended }: CallListener<Context>,
): () => void {
  const ignore = () => undefined;
  const subscribers = { start, end: ignore, asyncStart: ignore, asyncEnd: ended, error: ignore };
  channel.subscribe(subscribers);
  return () => {
    channel.unsubscribe(subscribers);
  };
}

/** Subscribes to a plain channel. Returns a function that unsubscribes. */
export function onMessages(name: "waymark:damaged" | "waymark:lease-lost", listener: () => void): () => void {
  subscribe(name, listener);
  return () => {
    unsubscribe(name, listener);
  };
}
