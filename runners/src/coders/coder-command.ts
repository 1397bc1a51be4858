/** How to start a coder. */
export interface CoderCommand {
  /** For `sh`. It reads the prompt on its stdin. */
  readonly command: string;
  /** Whether the command continues the session. */
  readonly continues: boolean;
}

/**
 * Returns the command line of a coder. `claude` and `codex`, alone or with options of their own, are started without a terminal
 * and with an answer that names their session; `claude -p …`, `codex exec …` and all others are run as they are.
 *
 * @param session - The session to continue, as the coder has reported it.
 */
export function coderCommand(coder: string, session?: string): CoderCommand {
  const [, tool, options = ""] = /^\s*(claude|codex)(?=\s|$)(.*)$/s.exec(coder) ?? [];
  const id = session !== undefined && /^[\w][\w.-]*$/.test(session) ? session : undefined;
  const has = (pattern: RegExp) => pattern.test(options);
  if (tool === "claude" && !has(/(?:^|\s)(?:-p|--print)\b/)) {
    const mode = has(/--permission-mode|--dangerously/) ? "" : " --permission-mode acceptEdits";
    const resume = id === undefined ? "" : ` --resume ${id}`;
    return { command: `claude -p --output-format json${mode}${options}${resume}`, continues: id !== undefined };
  }
  if (tool === "codex" && !has(/^\s*(?:exec|e)\b/)) {
    const mode = has(/--sandbox|(?:^|\s)-s\b|--full-auto|--dangerously|--yolo/) ? "" : " --sandbox workspace-write";
    const resume = id === undefined ? "" : ` resume ${id}`;
    return {
      command: `codex exec --json --skip-git-repo-check${mode}${options}${resume} -`,
      continues: id !== undefined,
    };
  }
  return { command: coder, continues: id !== undefined };
}
