import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Session } from "../../src/ui/api.js";
import type { Api } from "./api.js";

export type Connection = "none" | "connecting" | "live" | "lost";

/** The page's state and functions, passed to every view. */
export interface Page {
  readonly api: Api;
  readonly session: Session;
  /** Shows a message at the bottom for a few seconds. Screen readers read it aloud. */
  readonly say: (message: string) => void;
  readonly setConnection: (connection: Connection) => void;
  /** Shows in the frame how many tasks wait for a person. */
  readonly setAsking: (tasks: number) => void;
}

export const PageContext = createContext<Page | undefined>(undefined);

export function usePage(): Page {
  const page = useContext(PageContext);
  if (page === undefined) throw new Error("Views must be shown inside PageContext.");
  return page;
}
