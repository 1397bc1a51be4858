/** The shells with completion. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/**
 * Each calls `waymark __complete` with the words up to the cursor. Without candidates, the shell completes file names.
 */
export const COMPLETION_SCRIPTS: Readonly<Record<(typeof SHELLS)[number], string>> = {
  bash: `_waymark() {
  local IFS=$'\\n'
  COMPREPLY=($(waymark __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _waymark waymark`,
  zsh: `_waymark() {
  local -a candidates
  candidates=(\${(f)"$(waymark __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( \${#candidates} )); then compadd -- $candidates; else _files; fi
}
compdef _waymark waymark`,
  fish: `function __waymark_complete
  set -l words (commandline -opc) (commandline -ct)
  waymark __complete -- $words[2..-1] 2>/dev/null
end
complete -c waymark -a '(__waymark_complete)'`,
};
