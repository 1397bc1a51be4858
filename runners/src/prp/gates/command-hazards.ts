import type { Command, Pipeline } from "unbash";
import { commandIn, readWords } from "./conditions.js";

/** Where a command is in a gate. */
export interface CommandPlace {
  /** The gate's text. */
  readonly text: string;
  /** The pipe that the command is part of. */
  readonly pipe: Pipeline | undefined;
  /** Whether the gate checks the command's output or status: in a test's `$(…)`, in a loop's condition, or inverted. */
  readonly isJudged: boolean;
}

/** Returns the warnings about a single command, regardless of its statement. */
export function commandWarnings(command: Command, place: CommandPlace): string[] {
  const words = readWords(command);
  const plain = words[0] === "sudo" ? words.slice(1) : words;
  const line = plain.join(" ");
  const asks = ASKING.find(([pattern, answer]) => pattern.test(line) && !answer.test(line));
  const change =
    words[0] === "sudo" ? `sudo ${words[1] ?? ""}`.trim() : CHANGES.find(([pattern]) => pattern.test(line))?.[1];
  return [
    asks === undefined
      ? undefined
      : `it asks before it does anything, and its stdin is empty, so it fails; write ${asks[2]}`,
    change === undefined ? undefined : `${change}: its effect outlasts the gate`,
    curlHidesErrors(command, plain, place),
    findIgnores(plain),
    opensSession(command, plain, place.pipe),
  ].filter((text) => text !== undefined);
}

/** Commands that ask for confirmation, the flags that answer, and the flag to suggest. */
const ASKING: readonly (readonly [command: RegExp, answer: RegExp, advice: string])[] = [
  [/^terraform (?:-\S+ )*(?:apply|destroy)\b/, /-auto-approve|-input=false| \S+plan\b|\.tfplan/, "`-auto-approve`"],
  [/^docker (?:system|volume|image|container|builder|network) prune\b/, / (?:-\w*f\w*|--force)\b/, "`--force`"],
  [/^(?:apt|apt-get|dnf|yum) (?:-\w+ )*(?:install|remove|upgrade)\b/, / (?:-\w*[yq]\w*|--yes|--assume-yes)\b/, "`-y`"],
  [/^conda (?:create|install|remove|update|env remove)\b/, / (?:-y|--yes)\b/, "`--yes`"],
  [/^npm init\b(?! \S+\/)/, / (?:-y|--yes)\b/, "`--yes`"],
  [/^(?:npx )?prisma migrate reset\b/, / (?:-f|--force)\b/, "`--force`"],
];

const CHANGES: readonly (readonly [RegExp, string])[] = [
  [/^rm (?:-\w+ )*-[^\WrR]*[rR]\w* |^rm (?:-\w+ )*--recursive/, "rm -r"],
  [/^git push\b/, "git push"],
  [/^git (?:reset --hard|clean -\w*f|checkout (?:--|\.)|restore )/, "git takes changes away"],
];

/** Matches commands that pass on what they read, even an error page. */
const PASSING_ON =
  /^(?:jq(?!.* (?:-\w*e|--exit-status)\b)|python3? -m json\.tool|json_pp|yq|head|tail|cat|tee|wc|sort|sed|cut|tr|column|less|xxd|bat)\b/;

function curlHidesErrors(
  command: Command,
  words: readonly string[],
  { text, pipe, isJudged }: CommandPlace,
): string | undefined {
  const [name, ...args] = words;
  if (name !== "curl" || isJudged) return undefined;
  if (args.some((arg) => /^(?:--fail(?:-with-body|-early)?|-[a-zA-Z]*f[a-zA-Z]*|--version|-V|--help|-h)$/.test(arg)))
    return undefined;
  if (args.some((arg) => /^(?:file|ftp|telnet|dict):/.test(arg))) return undefined;
  const after =
    pipe === undefined ? [] : pipe.commands.slice(pipe.commands.findIndex(({ pos }) => pos === command.pos) + 1);
  const isRead = after.some((node) => {
    const reader = commandIn(node);
    return reader === undefined || !PASSING_ON.test(readWords(reader).join(" "));
  });
  // Another line may check the file.
  const file = /(?:\s-o\s*|--output[= ]|>\s*)["']?([\w./-]+)/.exec(`${text.slice(command.pos, command.end)} `)?.[1];
  const isKept = file !== undefined && file !== "/dev/null" && text.slice(command.end).includes(file);
  if (isRead || isKept) return undefined;
  return "curl exits with 0 on HTTP 401, 404 and 500; write `curl -f`";
}

/** Matches commands whose failure within `find -exec` doesn't matter for the work. */
const HARMLESS =
  /^(?:rm|ls|cat|echo|printf|wc|head|tail|grep|chmod|chown|mv|cp|sed|touch|basename|dirname|stat|du|file|mkdir|gzip)$/;

function findIgnores([name, ...args]: readonly string[]): string | undefined {
  const at = args.findIndex((arg) => /^-(?:exec|execdir|ok)$/.test(arg));
  if (name !== "find" || at === -1) return undefined;
  const end = args.findIndex((arg, index) => index > at && /^\\?[;+]$/.test(arg));
  const executed = args[at + 1] ?? "";
  if (args[end]?.endsWith("+") === true || HARMLESS.test(executed)) return undefined;
  return `find succeeds even if ${executed} fails; end it with \`-exec … {} +\`, or pipe it into \`xargs -n 1 …\``;
}

const SHELL = /(?:^|\/)(?:sh|bash|zsh|ash|fish)$/;

/** Returns a warning about a session without a command, which ends at once because stdin is empty. */
function opensSession(command: Command, words: readonly string[], pipe: Pipeline | undefined): string | undefined {
  const isFed = pipe !== undefined && pipe.commands[0]?.pos !== command.pos;
  if (isFed || command.redirects.some(({ operator }) => operator.startsWith("<"))) return undefined;
  const [name = "", ...args] = words;
  if (!isSession(name, args)) return undefined;
  return `${words.join(" ")} opens a session, which ends at once because stdin is empty; what follows runs here`;
}

function isSession(name: string, args: readonly string[]): boolean {
  if (name === "ssh")
    return (
      !args.some((arg) => /^-\w*[NVLDRfOTWn]/.test(arg)) && operands(args, /^-[bcDEeFIiJlmOopQRSWw]$/).length === 1
    );
  if (/^(?:docker|podman|nerdctl|kubectl|docker-compose|oc)$/.test(name)) {
    const isInteractive = args.some((arg) => /^-[it]+$|^--(?:interactive|tty)$/.test(arg));
    return isInteractive && SHELL.test(args.at(-1) ?? "");
  }
  return false;
}

function operands(args: readonly string[], withValue: RegExp): string[] {
  return args.filter((arg, index) => !arg.startsWith("-") && !withValue.test(args[index - 1] ?? ""));
}
