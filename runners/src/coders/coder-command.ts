/** How to start a coder. */
export interface CoderCommand {
  /** A command line for `sh`. It reads the prompt on stdin. */
  readonly command: string;
  /** Whether the command continues the session. */
  readonly continues: boolean;
}

/**
 * Returns the command line of a coder. `claude` and `codex`, alone or with options, get the options to run without a
 * terminal and to report their session. `claude -p …`, `codex exec …` and all other commands are run unchanged.
 *
 * @param session - The id of the session to continue, as the coder reported it.
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
