import type { Command } from "../../src/ui/api-parts.js";
import { usePage } from "./page.js";

interface CommandListProps {
  readonly commands: readonly Command[];
  /** With `--write`: what its button does. An action without one is only to copy. */
  readonly actions?: Partial<Record<Command["action"], () => void>>;
}

/** The possible actions, each with its command to copy. */
export function CommandList({ commands, actions = {} }: CommandListProps) {
  const { session } = usePage();
  return (
    <ul class="commands">
      {commands.map(({ action, text, note }) => {
        if (action === "advice") return <li key={action}>{text}</li>;
        const run = session.canWrite ? actions[action] : undefined;
        return (
          <li class="command" key={`${action} ${text}`}>
            <span class="small soft">
              {WHAT[action]}
              {note && `. ${note}`}
            </span>
            <div class="line">
              <code>{text}</code>
              <CopyButton text={text} label={`Copy the command: ${WHAT[action]}`} />
              {run && (
                <button type="button" class={action === "delete" || action === "cancel" ? "danger" : ""} onClick={run}>
                  {BUTTON[action] ?? WHAT[action]}
                </button>
              )}
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

/** Copies a text and says so. */
export function useCopy(): (text: string) => void {
  const { say } = usePage();
  return (text) => {
    navigator.clipboard.writeText(text).then(
      () => say("Copied."),
      () => say("The browser didn't allow to copy. Select the text and copy it by hand."),
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
  delete: "Remove it",
  cancel: "End its run for good",
  retry: "Put it back",
  prune: "Prune by this policy",
  verify: "Look for damage",
  repair: "Move damage to the quarantine",
  tasks: "List the tasks",
};

const BUTTON: Partial<Record<Command["action"], string>> = {
  fork: "Fork …",
  rewind: "Rewind …",
  complete: "Complete …",
  delete: "Remove …",
  cancel: "Cancel …",
  retry: "Retry …",
  prune: "Prune …",
  repair: "Repair …",
};
