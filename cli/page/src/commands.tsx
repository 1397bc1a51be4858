import { useId } from "preact/hooks";
import type { Command } from "../../src/ui/api-parts.js";
import { usePage } from "./page.js";

interface CommandListProps {
  readonly commands: readonly Command[];
  /** The functions of the buttons, with `--write` except for `export`. An action without a function has only a command to copy. */
  readonly actions?: Partial<Record<Command["action"], () => void>>;
}

/** The actions that have their own buttons in a view, the likeliest first. */
const IN_VIEW: readonly Command["action"][] = ["retry", "cancel", "fork", "rewind"];

/** The buttons of a view's heading, with `--write`. */
export function ActionButtons({ commands, actions = {} }: CommandListProps) {
  const { session } = usePage();
  if (!session.canWrite) return null;
  return (
    <>
      {IN_VIEW.map((action) => {
        const run = actions[action];
        if (run === undefined || !commands.some((command) => command.action === action)) return null;
        return <ActionButton key={action} action={action} run={run} />;
      })}
    </>
  );
}

function ActionButton({ action, run }: { readonly action: Command["action"]; readonly run: () => void }) {
  const look = action === "delete" || action === "cancel" ? "danger" : action === "retry" ? "primary" : "";
  return (
    <button type="button" class={look} onClick={run}>
      {BUTTON[action] ?? WHAT[action]}
    </button>
  );
}

/** A menu of the commands to copy, and of the actions that a view has no button for. */
export function CommandMenu({ commands, actions = {} }: CommandListProps) {
  const id = useId();
  const others = Object.fromEntries(Object.entries(actions).filter(([action]) => !isInView(action)));
  return (
    <>
      <button type="button" popovertarget={id}>
        Commands
      </button>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset belongs in a form. */}
      <div id={id} popover="auto" class="menu" role="group" aria-label="Commands">
        <CommandList commands={commands} actions={others} />
      </div>
    </>
  );
}

function isInView(action: string): boolean {
  return IN_VIEW.some((one) => one === action);
}

/** The possible actions, each with its command to copy. */
export function CommandList({ commands, actions = {} }: CommandListProps) {
  const { session } = usePage();
  return (
    <ul class="commands">
      {commands.map(({ action, text, note }) => {
        if (action === "advice") return <li key={action}>{text}</li>;
        const run = session.canWrite || action === "export" ? actions[action] : undefined;
        return (
          <li class="command" key={`${action} ${text}`}>
            <span class="small soft">
              {WHAT[action]}
              {note && `. ${note}`}
            </span>
            <div class="line">
              <code>{text}</code>
              <CopyButton text={text} label={`Copy the command: ${WHAT[action]}`} />
              {run && <ActionButton action={action} run={run} />}
            </div>
          </li>
        );
      })}
    </ul>
  );
}

export function CopyButton({
  text,
  label,
  word = "Copy",
}: {
  readonly text: string;
  readonly label: string;
  readonly word?: string;
}) {
  const copy = useCopy();
  return (
    <button type="button" aria-label={label} title={label} onClick={() => copy(text)}>
      {word}
    </button>
  );
}

/** Returns a function that copies a text and reports the result in the page. */
export function useCopy(): (text: string) => void {
  const { say } = usePage();
  return (text) => {
    navigator.clipboard.writeText(text).then(
      () => say("Copied."),
      () => say("The browser didn't allow copying. Select the text and copy it by hand."),
    );
  };
}

const WHAT: Readonly<Record<Command["action"], string>> = {
  advice: "What to do",
  show: "Show it in the terminal",
  "show-state": "Print its state",
  list: "List the checkpoints",
  diff: "Compare in the terminal",
  fork: "Begin a new task here",
  rewind: "Go back to this state",
  complete: "Mark it as completed",
  export: "Export its checkpoints and records as one file, for waymark import",
  delete: "Remove it",
  cancel: "End its run for good",
  continue: "Continue it in your program",
  retry: "Retry it",
  prune: "Prune by this policy",
  verify: "Look for damage",
  repair: "Move damage to the quarantine",
  tasks: "List the tasks",
};

const BUTTON: Partial<Record<Command["action"], string>> = {
  fork: "Fork …",
  rewind: "Rewind …",
  complete: "Complete …",
  export: "Download",
  delete: "Remove …",
  cancel: "Cancel …",
  retry: "Retry …",
  prune: "Prune …",
  repair: "Repair …",
};
