import { relative } from "node:path";
import { Listr, type ListrTask, ListrTaskState } from "listr2";
import type { ListedWorkstream, OneshotEvent } from "waymark-runners/oneshot";
import { EventLines } from "../event-lines.js";
import type { Output } from "../output.js";
import { printable } from "../printable.js";
import { secondsText } from "../words.js";
import { plainLine } from "./plain-line.js";

/** Rows left free for the command line and later output. */
const SPARE_ROWS = 2;

/**
 * Shows a run on a terminal as a list that changes in place. If the plan has more workstreams than the screen has rows,
 * it shows lines instead.
 */
export class TerminalView {
  readonly #output: Output;
  #view: LiveList | EventLines<OneshotEvent> | undefined;

  constructor(output: Output) {
    this.#output = output;
  }

  /** The list; `undefined` if lines are shown. */
  get live(): LiveList | undefined {
    return this.#view instanceof LiveList ? this.#view : undefined;
  }

  show(event: OneshotEvent): void {
    if (event.type === "runStarted") {
      const isFitting = event.workstreams.length <= this.#output.rows - SPARE_ROWS;
      this.#view = isFitting ? new LiveList(this.#output.colors) : new EventLines(this.#output, plainLine);
    }
    this.#view?.show(event);
  }

  async end(): Promise<void> {
    await this.#view?.end();
  }
}

type Wrapper = Parameters<ListrTask<object>["task"]>[1];

/** How a workstream ended. */
type End = { readonly state: "done" } | { readonly state: "failed" | "skipped"; readonly why: string };

/** Shows a run as a list that changes in place: one row per workstream, in the plan's order. */
class LiveList {
  readonly #colors: Output["colors"];
  readonly #rows = new Map<string, Row>();
  #footer: Wrapper | undefined;
  #note = "";
  #ended: Promise<unknown> = Promise.resolve();

  constructor(colors: Output["colors"]) {
    this.#colors = colors;
  }

  show(event: OneshotEvent): void {
    switch (event.type) {
      case "runStarted":
        this.#begin(event.workstreams);
        return;
      case "workstreamStarted":
        this.#rows.get(event.workstream)?.start();
        return;
      case "output":
        this.#rows.get(event.workstream)?.say(event.line);
        return;
      case "workstreamFinished":
        this.#rows.get(event.workstream)?.end({ state: "done" }, this.#took(event.durationMs));
        return;
      case "workstreamFailed":
        this.#rows
          .get(event.workstream)
          ?.end({ state: "failed", why: event.reason }, this.#took(event.durationMs, event.reason));
        return;
      case "workstreamStopped":
        this.#rows.get(event.workstream)?.end({ state: "skipped", why: "stopped, and will be run again" });
        return;
      case "runEnded":
        for (const row of this.#rows.values()) row.end({ state: "skipped", why: "not started" });
    }
  }

  /** Shows a line about the whole run below the list, as long as the list is shown. */
  say(line: string): void {
    this.#note = printable(line);
    if (this.#footer) this.#footer.output = this.#note;
  }

  /** Resolves once the list no longer changes. */
  async end(): Promise<void> {
    for (const row of this.#rows.values()) row.end({ state: "skipped", why: "not run to its end" });
    await this.#ended;
  }

  #begin(workstreams: readonly ListedWorkstream[]): void {
    const tasks = workstreams.map((workstream) => {
      const row = new Row(workstream);
      this.#rows.set(workstream.id, row);
      if (workstream.completed) row.end({ state: "skipped", why: "completed before" });
      return row.task;
    });
    const ended = Promise.all([...this.#rows.values()].map((row) => row.finished));
    // The output of a task without a title is shown below the list.
    const footer: ListrTask<object> = {
      task: async (_context, wrapper) => {
        this.#footer = wrapper;
        if (this.#note !== "") wrapper.output = this.#note;
        await ended;
      },
    };
    const list = new Listr<object>([...tasks, footer], {
      concurrent: true,
      exitOnError: false,
      // The run handles Ctrl-C itself: it saves first.
      registerSignalListeners: false,
      renderer: "default",
      rendererOptions: { showErrorMessage: false },
    });
    // The list only shows the run; its errors must not fail the run.
    this.#ended = list.run({}).catch(() => undefined);
  }

  #took(durationMs: number, reason?: string): string {
    return this.#colors.dim(` (${reason === undefined ? "" : `${printable(reason)}, `}${secondsText(durationMs)})`);
  }
}

/** The row of a workstream. */
class Row {
  readonly task: ListrTask<object>;
  readonly finished: Promise<End>;
  #title: string;
  #finish: (end: End) => void = () => undefined;
  #wrapper: Wrapper | undefined;
  #lastLine = "";
  #isStarted = false;
  #isEnded = false;

  constructor({ id, command, file }: ListedWorkstream) {
    // Workstreams with files share one command, so the file identifies the row.
    this.#title = printable(`${id}  ${file === undefined ? command : relative(process.cwd(), file)}`);
    this.finished = new Promise((resolve) => {
      this.#finish = resolve;
    });
    this.task = {
      title: this.#title,
      task: async (_context, wrapper) => {
        this.#wrapper = wrapper;
        // All rows start at once, to keep the plan's order. So a row whose workstream waits is shown as waiting.
        if (!this.#isStarted && !this.#isEnded) wrapper.task.state$ = ListrTaskState.WAITING;
        // A workstream may end before the list shows it.
        wrapper.title = this.#title;
        if (this.#lastLine !== "") wrapper.output = this.#lastLine;
        const end = await this.finished;
        if (end.state === "failed") throw new Error(end.why);
        if (end.state === "skipped") wrapper.skip(`${this.#title} (${end.why})`);
      },
    };
  }

  start(): void {
    this.#isStarted = true;
    if (this.#wrapper) this.#wrapper.task.state$ = ListrTaskState.STARTED;
  }

  /** Shows the last line of the workstream's output. */
  say(line: string): void {
    this.#lastLine = printable(line);
    if (this.#wrapper) this.#wrapper.output = this.#lastLine;
  }

  end(end: End, note = ""): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#title += note;
    if (this.#wrapper) this.#wrapper.title = this.#title;
    this.#finish(end);
  }
}
