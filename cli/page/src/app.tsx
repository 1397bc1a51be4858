import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ErrorInfo } from "../../src/ui/api-parts.js";
import { countText } from "../../src/words.js";
import { errorInfo } from "./api.js";
import { CheckpointView } from "./checkpoint-view.js";
import { type Connected, connect, NO_TOKEN } from "./connect.js";
import { DiffView } from "./diff-view.js";
import { InboxView } from "./inbox-view.js";
import { Keys, listKeys, useKeys } from "./keys.js";
import { type Connection, PageContext } from "./page.js";
import { Problem } from "./problem.js";
import { RetentionView } from "./retention-view.js";
import { ALL_TASKS, findParent, formatRoute, parseRoute, type Route } from "./route.js";
import { StorageView } from "./storage-view.js";
import { pictured, StoredText } from "./stored-text.js";
import { taskName } from "./task-name.js";
import { TaskView } from "./task-view.js";
import { TasksView } from "./tasks-view.js";

export function App() {
  const [connected, setConnected] = useState<Connected>();
  const [error, setError] = useState<ErrorInfo>();
  useEffect(() => {
    connect().then(setConnected, (failure: unknown) => setError(errorInfo(failure)));
  }, []);
  if (error) {
    const isTokenMissing = error.code === NO_TOKEN.code;
    return (
      <main>
        <h1>Waymark</h1>
        <Problem
          title={isTokenMissing ? "This page needs its token" : "The page has no connection to its server"}
          error={error}
        />
      </main>
    );
  }
  if (connected === undefined) return null;
  return (
    <Keys>
      <Frame {...connected} />
    </Keys>
  );
}

function Frame({ api, session }: Connected) {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  const tasks = useRef<Route>({ view: "tasks", filter: ALL_TASKS });
  if (route.view === "tasks") tasks.current = { view: "tasks", filter: route.filter };
  const [connection, setConnection] = useState<Connection>("none");
  const [asking, setAsking] = useState(0);
  const [message, setMessage] = useState({ text: "", place: "" });
  const [scheme, turnScheme] = useScheme();
  const main = useRef<HTMLElement>(null);

  useEffect(() => {
    const onChange = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);

  const go = useCallback((fragment: string, { replace = false }: { readonly replace?: boolean } = {}) => {
    if (!replace) {
      location.hash = fragment;
      return;
    }
    history.replaceState(null, "", fragment);
    setRoute(parseRoute(fragment));
  }, []);

  const say = useCallback((text: string) => setMessage({ text, place: location.hash }), []);
  useEffect(() => {
    if (message.text === "") return;
    const timer = setTimeout(() => setMessage({ text: "", place: "" }), 4000);
    return () => clearTimeout(timer);
  }, [message]);

  // A new place is read from its top, also by screen readers. Another filter of the tasks isn't a new place, and
  // neither is another selection within a task.
  const place = route.view === "tasks" || route.view === "task" ? placeOf(route) : formatRoute(route);
  const isFirst = useRef(true);
  useEffect(() => {
    if (route.view === "tasks") document.title = "Tasks · Waymark";
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    scrollTo(0, 0);
    main.current?.focus();
  }, [place]);

  const up = () => {
    // Reads the address, not the drawn page, so that two quick presses go up two levels.
    const here = parseRoute(location.hash);
    if (here.view !== "tasks") go(formatRoute(findParent(here, tasks.current)));
  };
  useKeys("Everywhere", [
    { keys: ["Escape", "Backspace"], what: "one level up", run: up },
    { keys: ["1"], what: "tasks", run: () => go(formatRoute(tasks.current)) },
    { keys: ["2"], what: "inbox: what waits for a person", run: () => go("#/inbox") },
    { keys: ["3"], what: "retention", run: () => go("#/retention") },
    { keys: ["4"], what: "storage", run: () => go("#/storage") },
    { keys: ["s"], what: "dark or light", run: turnScheme },
    { keys: ["?"], what: "this list", run: listKeys },
  ]);

  const page = useMemo(() => ({ api, session, say, setConnection, setAsking }), [api, session, say]);
  return (
    <PageContext.Provider value={page}>
      {/* This is a button and not a link, because a link would change the fragment, which names the view. */}
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="bar">
        <a class="brand" href="#/tasks">
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <path fill="currentColor" d="M4 3h11l6 5.5-6 5.5H4z" />
            <path fill="currentColor" opacity="0.55" d="M7 15h3v7H7z" />
          </svg>
          Waymark
        </a>
        <nav aria-label="Views">
          <Tab
            href={formatRoute(tasks.current)}
            text="Tasks"
            isHere={["tasks", "task", "checkpoint", "diff"].includes(route.view)}
          />
          <Tab
            href="#/inbox"
            text={asking === 0 ? "Inbox" : `Inbox ${countText(asking)}`}
            isHere={route.view === "inbox"}
          />
          <Tab href="#/retention" text="Retention" isHere={route.view === "retention"} />
          <Tab href="#/storage" text="Storage" isHere={route.view === "storage"} />
        </nav>
        <p class="storage mono anywhere">
          <StoredText text={session.name} />
        </p>
        <div class="tools">
          <span class={`connection ${connection}`} role="status">
            <span>{CONNECTIONS[connection]}</span>
          </span>
          <span class={`mode${session.canWrite ? " writes" : ""}`} title={MODE_TITLES[String(session.canWrite)]}>
            {session.canWrite ? "read and write" : "read only"}
          </span>
          <button
            type="button"
            class="quiet"
            onClick={turnScheme}
            aria-label={`Colours: ${scheme}. Change them`}
            title={`Colours: ${scheme}`}
          >
            ◐
          </button>
          <button type="button" class="quiet" onClick={listKeys} aria-label="Keys" title="Keys">
            <kbd>?</kbd>
          </button>
        </div>
      </header>
      {connection === "lost" && (
        <p class="notice" role="alert">
          Connection lost: what you see may be old. Trying again …
        </p>
      )}
      <main ref={main} tabIndex={-1}>
        {route.view === "tasks" && route.isUnknown && (
          <p class="problem paused" role="status">
            The address names no place of this page. All tasks are shown.
          </p>
        )}
        <Crumbs route={route} tasks={tasks.current} />
        <View route={route} go={go} />
      </main>
      <div class="toast" role="status">
        {/* A message disappears when its view is left. */}
        {message.place === location.hash && message.text}
      </div>
    </PageContext.Provider>
  );
}

function placeOf(route: Extract<Route, { view: "tasks" | "task" }>): string {
  return route.view === "tasks" ? "tasks" : formatRoute({ view: "task", taskId: route.taskId });
}

const CONNECTIONS: Readonly<Record<Connection, string>> = {
  none: "",
  connecting: "connecting …",
  live: "live",
  lost: "connection lost",
};

const MODE_TITLES: Readonly<Record<string, string>> = {
  true: "Started with --write: buttons change the storage, after a question",
  false: "Start waymark ui with --write to change something here",
};

function Tab({ href, text, isHere }: { readonly href: string; readonly text: string; readonly isHere: boolean }) {
  return (
    <a href={href} aria-current={isHere ? "page" : undefined}>
      {text}
    </a>
  );
}

interface ViewProps {
  readonly route: Route;
  readonly go: (fragment: string, options?: { readonly replace?: boolean }) => void;
}

function View({ route, go }: ViewProps) {
  switch (route.view) {
    case "tasks":
      return <TasksView filter={route.filter} go={go} />;
    case "task":
      return <TaskView key={route.taskId} {...route} go={go} />;
    case "checkpoint":
      return <CheckpointView key={route.taskId} {...route} go={go} />;
    case "diff":
      return <DiffView key={route.taskId} {...route} go={go} />;
    case "retention":
      return (
        <RetentionView
          key={route.taskId ?? route.choiceId ?? ""}
          {...(route.taskId !== undefined && { taskId: route.taskId })}
          {...(route.choiceId !== undefined && { choiceId: route.choiceId })}
        />
      );
    case "inbox":
      return <InboxView />;
    case "storage":
      return <StorageView />;
  }
}

/** The links to the places above the current one. */
function Crumbs({ route, tasks }: { readonly route: Route; readonly tasks: Route }) {
  if (route.view === "tasks" || route.view === "inbox" || route.view === "storage") return null;
  if (route.view === "retention" && route.taskId === undefined) return null;
  const { taskId = "" } = route;
  return (
    <nav class="crumbs" aria-label="Above">
      <ol>
        <li>
          <a href={formatRoute(tasks)}>Tasks</a>
        </li>
        {route.view !== "task" && (
          <li>
            <a class="mono anywhere" href={formatRoute({ view: "task", taskId })} title={pictured(taskName(taskId))}>
              <StoredText text={taskName(taskId)} />
            </a>
          </li>
        )}
      </ol>
    </nav>
  );
}

const SCHEME = "waymark.scheme";
const SCHEMES = ["as the system", "light", "dark"] as const;

/** Returns the colour scheme (the system's, or a chosen one), and a function that changes it. */
function useScheme(): [(typeof SCHEMES)[number], () => void] {
  const [scheme, setScheme] = useState(() => SCHEMES.find((one) => one === localStorage.getItem(SCHEME)) ?? SCHEMES[0]);
  useEffect(() => {
    localStorage.setItem(SCHEME, scheme);
    if (scheme === SCHEMES[0]) delete document.documentElement.dataset["scheme"];
    else document.documentElement.dataset["scheme"] = scheme;
  }, [scheme]);
  return [scheme, () => setScheme((before) => SCHEMES[(SCHEMES.indexOf(before) + 1) % SCHEMES.length] ?? before)];
}
